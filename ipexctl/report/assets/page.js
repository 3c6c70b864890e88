"use strict";
// All that comes from the run is put here as text (textContent), never as markup.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (n) => "--c" + (n % 8);
const redraws = [];

function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === "style") Object.assign(node.style, value);
    else if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const text = (tag, words, className) => el(tag, {className: className || "", textContent: words});
const body = (id) => document.querySelector("#" + id + " .body");
const empty = (words) => text("p", words, "empty");
const panel = (title, ...children) => el("div", {className: "panel"}, text("h3", title), ...children);

function table(heads, rows, mono) {
  const head = el("tr", {}, ...heads.map((h) => el("th", {textContent: h, scope: "col"})));
  const lines = rows.map((row) => el("tr", {}, ...row.map((cell, i) =>
    text("td", cell, mono && mono.includes(i) ? "mono" : ""))));
  return el("div", {className: "scroll", tabIndex: 0, role: "region", ariaLabel: heads.join(", ")},
    el("table", {className: "stack"}, el("thead", {}, head), el("tbody", {}, ...lines)));
}

function clock(seconds) {
  const sign = seconds < 0 ? "−" : "", s = Math.abs(seconds), whole = Math.round(s);
  if (s < 10 && s % 1) return (s < 0.05 ? "" : sign) + s.toFixed(1) + " s";
  const parts = whole < 3600 ? [Math.floor(whole / 60), "min", whole % 60, "s"]
    : [Math.floor(whole / 3600), "h", Math.round(whole % 3600 / 60), "min"];
  if (parts[2] === 60) { parts[0] += 1; parts[2] = 0; }
  const shown = (n, unit) => n ? [n + " " + unit] : [];
  return sign + ([...shown(parts[0], parts[1]), ...shown(parts[2], parts[3])].join(" ") || "0 s");
}

// ticks of a time axis: whole seconds, minutes or hours, so that no two are labelled alike
const TICKS = [0.1, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 345600, 864000];
function timeTicks(from, to, most) {
  const unit = to - from > 120 ? 60 : 0, every = TICKS.find((t) => t >= unit && (to - from) / t <= most) || (to - from) / most;
  const found = [];
  for (let n = Math.ceil(from / every); n * every <= to; n++) found.push(n * every);
  return found;
}

function powers(low, high) {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), found = [];
  const every = Math.max(1, Math.ceil((last - first) / 5));
  for (let n = first; n <= last; n += every) found.push(Number("1e" + n));
  return found;
}

function number(v, digits) {
  if (v === null || v === undefined) return "–";
  const size = Math.abs(v);
  if (size >= 1e6 || (v && size < 1e-4)) return v.toExponential(Math.min(3, (digits || 3) - 1)).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(+v.toPrecision(digits || 3));
}

// at small widths the beginning that all have in common is cut, and not the end
function shortNames(names) {
  let same = names.length > 1 ? names[0].length : 0;
  for (const name of names) while (same && name.slice(0, same) !== names[0].slice(0, same)) same--;
  same = names[0].slice(0, same).search(/[^.\-_]*$/);
  return (name) => el("div", {className: "name", title: name, ariaLabel: name},
    text("i", name.slice(0, same)), text("b", name.slice(same)));
}

// --- charts ---

function faded(name, share) {
  const probe = css(name);
  const n = parseInt(probe.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${share})`;
}

const ending = (values) => values.findLast((v) => v !== null);

function chart(found, label, height) {
  const box = el("div", {className: "chart", role: "img"});
  const last = found.series.map((s) => {
    return s.name + ": from " + number(s.y.find((v) => v !== null)) + " to " + number(ending(s.y));
  });
  box.setAttribute("aria-label", label + ". " + last.join("; "));
  if (found.note) box.append(text("p", found.note, "bad"));
  let plot = null;
  const draw = () => {
    if (plot) plot.destroy();
    const place = found.axis === "time" ? clock : (v) => number(v, 6);
    // without a cursor the legend has the last value, and where that is if it is not at the end
    const shown = (values, say) => (u, v, s, index) => {
      const at = values.findLastIndex((one) => one !== null);
      if (index !== null && index !== undefined || at < 0) return say(v);
      return say(values[at]) + (at < values.length - 1 && found.axis !== "time" ? " (" + found.axis + " " + place(found.x[at]) + ")" : "");
    };
    const unit = (v) => !found.unit ? number(v, 4) : number(v < 0.001 ? 0 : v) + " " + found.unit;
    const series = [{label: found.axis, value: shown(found.x, place)}];
    const values = [found.x], bands = [];
    found.series.forEach((s, n) => {
      series.push({label: s.name, stroke: css(colour(n)), width: 1.5, spanGaps: true,
        points: {show: found.x.length < 30, size: 5}, value: shown(s.y, unit)});
      values.push(s.y);
      if (!s.low) return;
      for (const edge of [s.high, s.low]) {
        series.push({label: edge === s.high ? "most" : "least", stroke: "transparent", width: 0,
          spanGaps: true, points: {show: false}, value: shown(edge, unit)});
        values.push(edge);
      }
      bands.push({series: [values.length - 2, values.length - 1], fill: faded(colour(n), 0.18)});
    });
    const axis = {stroke: css("--soft"), grid: {stroke: css("--line"), width: 1},
      ticks: {stroke: css("--line"), width: 1}, font: "12px system-ui, sans-serif"};
    const wide = Math.max(200, box.clientWidth || 300);
    const time = found.axis === "time" ? {values: (u, ticks) => ticks.map(clock),
      splits: (u, axis, low, high) => timeTicks(low, high, Math.min(8, wide / 105))} : {};
    const big = {values: (u, ticks) => ticks.map((v) => v === null ? "" : number(v, 6))};
    const seen = found.series.flatMap((s) => [s.y, s.low || [], s.high || []].flat()).filter((v) => v !== null);
    const least = Math.min(...seen), most = Math.max(...seen);
    const log = !found.unit && least > 0 && most > 1e4 * least;
    const y = found.unit ? {range: (u, low, high) => [0, high * 1.08 || 1]}
      : log ? {distr: 3} : most - least > 1e14 ? {range: [Math.min(0, least), Math.max(0, most)]} : {};
    // uPlot finds no ticks where a scale has many decades
    const ticks = log ? powers : (low, high) => [0, 0.25, 0.5, 0.75, 1].map((part) => low + part * (high - low));
    const steep = log || most - least > 1e14 ? {filter: (u, all) => all, incrs: (u, axis, low, high) => [(high - low) / 4],
      splits: (u, axis, low, high) => ticks(low, high)} : {};
    plot = new uPlot({width: wide, height: height || 180,
      scales: {x: {time: false}, y}, series, bands, cursor: {drag: {x: true, y: false}},
      axes: [{...axis, ...big, ...time, space: 70}, {...axis, ...big, ...steep, size: 60, space: 24}],
      legend: {show: true}}, values, box);
  };
  redraws.push(draw);
  return box;
}

// --- the first screen ---

function first() {
  const top = body("first");
  top.append(text("p", (data.name ? data.name + " · " : "") + data.run, "id mono"),
    text("h1", data.headline, data.tone),
    el("p", {className: "command"}, text("code", data.command)));
  for (const note of data.notes) top.append(text("p", note, "soft"));
  if (data.cause) {
    const box = el("div", {className: "cause"}, el("p", {}, text("strong", data.cause.text)));
    if (data.cause.known) box.append(text("p", data.cause.known));
    if (data.cause.lines.length) {
      const said = text("pre", data.cause.lines.join("\n"));
      said.tabIndex = 0;
      said.setAttribute("aria-label", "Last lines of that rank");
      said.setAttribute("role", "region");
      box.append(said);
    }
    if (data.cause.again) box.append(el("p", {}, "Again: ", text("code", data.cause.again)));
    top.append(box);
  }
  const cards = data.cards.map((c) => el("div", {className: "card"}, text("dt", c.label),
    text("dd", c.value, `value ${c.value === "unknown" ? "unknown" : c.tone}`), text("dd", c.note, "note")));
  top.append(el("dl", {className: "cards"}, ...cards));
  top.append(el("div", {className: "two top"}, lossPanel(), waitPanel()));
}

function lossPanel() {
  const found = data.loss || data.rate;
  const title = data.loss ? "Loss" : "Speed";
  const box = el("div", {className: "panel"}, text("h2", title));
  box.append(found ? chart(found, title + " by " + found.axis, 240)
    : empty("The output of this run has no losses. A line such as “step 10 loss 0.5” is enough."));
  return box;
}

const PARTS = {computing: "--c2", sending: "--c0", slow: "--c4", rest: "--c7"};

function waitPanel() {
  const w = data.waiting;
  const box = el("div", {className: "panel"}, text("h2", "Where the ranks’ time goes"));
  if (w.headline) box.append(text("p", w.headline));
  if (w.parts.length) {
    const known = w.parts.filter((p) => p.share > 0.004);
    box.append(el("div", {className: "bar", role: "img", ariaLabel: known.map((p) =>
      p.name + " " + Math.round(p.share * 100) + " %").join(", ")}, ...known.map((p) =>
      el("span", {style: {flex: p.share + " 1 0", background: `var(${PARTS[p.kind]})`}}))));
    box.append(el("ul", {className: "key"}, ...w.parts.map((p) => el("li", {},
      el("i", {style: {background: `var(${PARTS[p.kind]})`}}), text("span", p.name),
      text("b", Math.round(p.share * 100) + " %")))));
  } else {
    box.append(empty("Too few samples: the hosts look at their ranks every 2.5 s of training."));
  }
  for (const [why, command] of w.proposals)
    box.append(el("p", {className: "advice"}, "Try: " + why, el("br"), text("code", command)));
  return box;
}

// --- sections ---

const STEP_PARTS = {computing: "computing", waited: "waiting for a CPU", sending: "exchanging data",
  idle: "other waits"};

function differences() {
  const at = body("differences");
  if (!at) return;
  at.append(...data.compared.map((line) => text("p", line, "soft")));
  const found = data.comparison ? data.comparison.differences : [];
  if (!found.length) {
    at.append(empty("Nothing that was recorded of the two runs differs but what is shown above."));
    return;
  }
  const list = (title, rows) => {
    at.append(text("h3", title), el("ul", {className: "differences"}, ...rows.map((d) =>
      text("li", d.text, d.explains ? "difference explains" : "difference"))));
  };
  for (const part of new Set(found.map((d) => d.part)))
    list(part ? "Longer: " + STEP_PARTS[part] : "Other differences", found.filter((d) => d.part === part));
}

// their colours are told apart without red or green, too
const PHASES = ["connect", "plan", "preflight", "sync", "launch", "until the first step", "training",
  "after the last step", "end", "stall", "restart"];
const phase = (name) => name === "lost" ? "repeating-linear-gradient(45deg, var(--bad) 0 2px, transparent 2px 6px)"
  : `var(--p${PHASES.indexOf(name === "ranks run" ? "training" : name)})`;

function timeline() {
  const at = body("timeline"), t = data.timeline, span = t.to - t.from;
  if (!t.lanes.length || !(span > 0)) {
    at.append(empty("The hosts have no record of this run."));
    return;
  }
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
  at.append(box);
}

function mixed(a, b, share) {
  const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  const at = (i) => Math.round(part(a, i) + (part(b, i) - part(a, i)) * share);
  return `rgb(${at(0)}, ${at(1)}, ${at(2)})`;
}

function heat(found) {
  const values = found.rows.flatMap((r) => r[1]).filter((v) => v !== null).sort((a, b) => a - b);
  const box = panel(found.title);
  if (!values.length) return null;
  const low = values[0], high = Math.max(values[Math.floor(values.length * 0.99)], low * 1.1, low + 1e-9);
  box.append(text("p", found.text, "soft"));
  const canvas = el("canvas", {role: "img"});
  canvas.setAttribute("aria-label", found.title + ": " + found.text);
  const at = text("output", "", "soft");
  const rows = found.rows.length, columns = found.rows[0][1].length;
  const height = Math.min(420, Math.max(40, rows * (rows > 40 ? 6 : 20)));
  canvas.style.height = height + "px";
  const draw = () => {
    canvas.width = columns * 8;
    canvas.height = rows * 8;
    canvas.style.imageRendering = "pixelated";
    const pen = canvas.getContext("2d"), cold = css("--cold"), hot = css("--hot");
    found.rows.forEach((row, y) => row[1].forEach((v, x) => {
      if (v === null) return;
      pen.fillStyle = mixed(cold, hot, Math.min(1, Math.max(0, (v - low) / (high - low))));
      pen.fillRect(x * 8, y * 8, 8, 8);
    }));
  };
  canvas.addEventListener("mousemove", (event) => {
    const r = canvas.getBoundingClientRect();
    const x = Math.min(columns - 1, Math.floor((event.clientX - r.left) / r.width * columns));
    const y = Math.min(rows - 1, Math.floor((event.clientY - r.top) / r.height * rows));
    const row = found.rows[Math.max(0, y)], when = found.from + (found.to - found.from) * (x + 0.5) / columns;
    at.textContent = row[0] + ", " + clock(when) + ": " + number(row[1][Math.max(0, x)]) + " " + found.unit;
  });
  redraws.push(draw);
  const names = rows > 8 ? [found.rows[0][0], found.rows[rows - 1][0]] : found.rows.map((r) => r[0]);
  box.append(el("div", {className: "scale"}, text("span", number(low) + " " + found.unit), el("i"),
    text("span", number(high) + " " + found.unit), at),
    el("div", {className: "heat"}, el("div", {className: "names"}, ...names.map((n) => text("span", n))), canvas,
      el("div", {className: "times"}, text("span", clock(found.from)), text("span", clock(found.to)))));
  return box;
}

function metrics() {
  const at = body("metrics");
  if (at) at.append(el("div", {className: "three"}, ...data.metrics.map((m) =>
    panel(m.title, chart(m, m.title + " by " + m.axis, 140)))));
}

function ranks() {
  const at = body("ranks"), grid = el("div", {className: "two"});
  if (data.loss && data.rate)
    grid.append(panel("Speed", chart(data.rate, "Steps per second over time", 180)));
  for (const one of data.heat) {
    const made = heat(one);
    if (made) grid.append(made);
  }
  at.append(grid.childElementCount ? grid
    : empty("No steps with their times are known: the run was short, or prints no numbered steps."));
}

function usage() {
  const at = body("usage");
  const list = el("div", {className: "two"}, ...data.usage.map((u) =>
    panel(u.title + " (" + u.unit + ")", chart(u, u.title + " over time", 180))));
  at.append(data.usage.length ? list
    : empty("No samples: the run was shorter than 5 s, or an older ipexctl started it."));
}

function places() {
  const at = body("places");
  if (!data.places.length) at.append(empty("The plan of this run is not known."));
  const grid = el("div", {className: "two"});
  for (const host of data.places) {
    const box = panel(host.hosts), of = new Map(), moved = new Set();
    for (const r of host.ranks) {
      for (const cpu of r.planned) of.set(cpu, [...(of.get(cpu) || []), r.rank]);
      if (r.real && (r.real.length !== r.planned.length || r.real.some((c) => !r.planned.includes(c)))) {
        moved.add(r.rank);
        for (const cpu of r.real) if (!of.has(cpu)) of.set(cpu, [r.rank]);
      }
    }
    for (const [socket, node, cores] of host.sockets) {
      const title = [socket !== null ? "socket " + socket : "", node !== null ? "NUMA node " + node : ""];
      box.append(text("p", title.filter(Boolean).join(", ") || "cores", "soft"));
      const cells = cores.map((core) => {
        const own = [...new Set(core.flatMap((cpu) => of.get(cpu) || []))];
        const name = own.length === 1 ? "r" + own[0] : own.length ? "shared" : "free";
        const cell = text("span", name, own.length ? "used" : "");
        cell.title = "CPU " + core.join(", ") + ": " + (own.length ? "rank " + own.join(", ") : "free");
        if (own.length) cell.style.background = `var(${colour(own.length > 1 ? 7 : own[0])})`;
        if (own.some((r) => moved.has(r))) cell.classList.add("moved");
        return cell;
      });
      box.append(el("div", {className: "cores"}, ...cells));
    }
    if (!host.sockets.length) box.append(empty("Its cores are not recorded."));
    const known = host.ranks.some((r) => r.real);
    const words = moved.size ? "Not where the plan has them: rank " + [...moved].join(", ")
      : known ? "All ranks ran where the plan has them." : "Where the ranks really ran is not known.";
    box.append(text("p", words + (host.shown ? " The ranks of " + host.shown + " are shown." : ""), "soft"));
    grid.append(box);
  }
  at.append(grid);
}

function rest() {
  const env = body("environment");
  const rows = [...data.facts, ...data.environment];
  if (rows.length) env.append(table(["What", "Value"], rows, [1]));
  if (data.packages.length) env.append(el("details", {}, text("summary", data.packages.length + " packages"),
    table(["Package", "Version"], data.packages, [0, 1])));
  if (!data.environment.length)
    env.append(empty("The first host has no record of the run’s environment."));
  body("variables").append(data.variables.length
    ? table(["Variable", "Value", "Why", "Hosts"], data.variables, [0, 1])
    : empty("The hosts did not keep the variables of this run."));
  body("checkpoints").append(data.checkpoints.length
    ? table(["Checkpoint", "Step", "Size", "State", "Hosts"], data.checkpoints, [0])
    : empty("The hosts keep no copies of checkpoints of this run (--checkpoints GLOB)."));
  const seen = data.findings, when = " at the start, " + data.began;
  body("findings").append(seen && seen.length
    ? table(["Check", "Hosts", "Found" + when], seen)
    : empty(seen ? "The preflight found nothing" + when + "."
      : "The first host kept no findings of the preflight: an earlier ipexctl started this run, or it was not reached."));
  body("foot").append(text("p", "Made by ipexctl on " + data.made + ". This file asks for nothing outside."));
}

first();
differences();
metrics();
timeline();
ranks();
usage();
places();
rest();
const drawAll = () => redraws.forEach((draw) => draw());
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
matchMedia("print").addEventListener("change", drawAll);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) { width = innerWidth; drawAll(); }
});
})();
