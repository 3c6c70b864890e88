const PARTS = {computing: "--c2", sending: "--c0", slow: "--c4", cpu: "--c1", asleep: "--c6", disk: "--c3", process: "--c5", rest: "--c7"};

sections.waiting = (words) => {
  const w = data.waiting, made = w.headline ? [text("p", w.headline)] : [];
  if (w.parts.length) {
    const known = w.parts.filter((p) => p.share > 0.004);
    made.push(el("div", {className: "bar", role: "img", ariaLabel: known.map((p) =>
      p.name + " " + Math.round(p.share * 100) + " %").join(", ")}, ...known.map((p) =>
      el("span", {style: {flex: p.share + " 1 0", background: `var(${PARTS[p.kind]})`}}))));
    made.push(el("ul", {className: "key"}, ...known.map((p) => el("li", {},
      el("i", {style: {background: `var(${PARTS[p.kind]})`}}), text("span", p.name),
      text("b", Math.round(p.share * 100) + " %")))));
  } else {
    made.push(empty(words.empty));
  }
  return [...made, ...w.proposals.map(([why, command]) =>
    el("p", {className: "advice"}, "Try: " + why, el("br"), text("code", command)))];
};
