// their colours are told apart without red or green, too
const PHASES = ["connect", "plan", "preflight", "sync", "launch", "until the first step", "training",
  "after the last step", "end", "stall", "restart"];
const SAME = {"ranks run": "training", "in the queue": "connect"};
const phase = (name) => name === "lost" ? "repeating-linear-gradient(45deg, var(--bad) 0 2px, transparent 2px 6px)"
  : `var(--p${PHASES.indexOf(SAME[name] ?? name)})`;

// at small widths the beginning that all have in common is cut, and not the end
function shortNames(names) {
  let same = names.length > 1 ? names[0].length : 0;
  for (const name of names) while (same && name.slice(0, same) !== names[0].slice(0, same)) same--;
  same = names[0].slice(0, same).search(/[^.\-_]*$/);
  return (name) => el("div", {className: "name", title: name, ariaLabel: name},
    text("i", name.slice(0, same)), text("b", name.slice(same)));
}

sections.timeline = () => {
  const t = data.timeline, span = t.to - t.from;
  if (!t.lanes.length || !(span > 0)) return [];
  const used = [...new Set(t.lanes.flatMap((l) => l.spans.map((s) => s[0])))];
  const place = (a) => 100 * (a - t.from) / span + "%";
  const name = shortNames(t.lanes.map((l) => l.host));
  const lane = (l) => el("div", {className: "lane"}, name(l.host), el("div", {role: "img", ariaLabel: l.host + ": " + l.spans.map((s) =>
      s[0] + " " + clock(s[2] - s[1])).join(", ")}, ...l.spans.map((s) => el("span", {
        className: s[0] === "stall" ? "over" : "", title: s[0] + ": " + clock(s[2] - s[1]),
        style: {left: place(s[1]), width: 100 * (s[2] - s[1]) / span + "%",
          background: phase(s[0])}}))));
  const lanes = t.lanes.map(lane);
  const ticks = timeTicks(t.from, t.to, innerWidth < 600 ? 3 : 8);
  const box = el("div", {className: "panel"}, ...lanes.slice(0, 16));
  if (lanes.length > 16) box.append(el("details", {}, text("summary", (lanes.length - 16) + " more hosts"),
    ...lanes.slice(16)));
  box.append(el("div", {className: "lane axis"}, el("div"), el("div", {}, ...ticks.map((s) =>
    el("span", {textContent: clock(s), style: {left: place(s)}})))));
  box.append(el("ul", {className: "key inline"}, ...used.map((k) => el("li", {},
    el("i", {style: {background: phase(k)}}), text("span", k)))));
  const rows = t.lanes.slice(0, 64).flatMap((l) => l.spans.map((s) => [l.host, s[0], clock(s[1]), clock(s[2] - s[1])]));
  box.append(el("details", {}, text("summary", "As a table"), table(["Host", "Phase", "From", "Took"], rows)));
  return [box];
};
