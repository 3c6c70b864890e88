// The page's script begins with this; NAME.js of each section follows. All that comes from the run
// is put here as text (textContent), never as markup.
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
    el("td", {className: mono && mono.includes(i) ? "mono" : "", textContent: cell,
      // on small screens, where a row is a list
      ...(heads.length > 3 && i && cell ? {"data-head": heads[i]} : {})}))));
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
    const seen = found.within || found.series.flatMap((s) => [s.y, s.low || [], s.high || []].flat()).filter((v) => v !== null);
    const least = Math.min(...seen), most = Math.max(...seen);
    const log = !found.unit && least > 0 && most > 1e4 * least;
    const y = found.unit ? {range: (u, low, high) => [0, high * 1.08 || 1]}
      : log ? {distr: 3, ...(found.within ? {range: found.within} : {})}
      : found.within ? {range: [least - (most - least || 1) * 0.05, most + (most - least || 1) * 0.05]} : most - least > 1e14 ? {range: [Math.min(0, least), Math.max(0, most)]} : {};
    // uPlot finds no ticks where a scale has many decades
    const ticks = log ? powers : (low, high) => [0, 0.25, 0.5, 0.75, 1].map((part) => low + part * (high - low));
    const steep = log || most - least > 1e14 ? {filter: (u, all) => all, space: 1, incrs: (u, axis, low, high) => [(high - low) / 4],
      splits: (u, axis, low, high) => ticks(low, high)} : {};
    plot = new uPlot({width: wide, height: height || 180,
      scales: {x: {time: false}, y}, series, bands, cursor: {drag: {x: true, y: false}},
      axes: [{...axis, ...big, ...time, space: 70}, {...axis, ...big, size: 60, space: 24, ...steep}],
      legend: {show: true}}, values, box);
    for (const row of box.querySelectorAll(".u-series")) {
      row.lastChild.before(" ");
      row.after(" ");
    }
  };
  redraws.push(draw);
  return box;
}

// --- sections ---

const sections = {};  // by its name, what a section draws: a function from its words to nodes

function drawSections(words) {
  for (const [name, own] of Object.entries(words)) {
    const at = body(name);
    if (!at) continue;
    const rows = () => data[name].length ? [table(own.heads, data[name], own.mono)] : [];
    const made = (sections[name] || rows)(own);
    at.append(...(made.length ? made : [empty(own.empty)]));
  }
  body("foot").append(text("p", "Made by ipexctl on " + data.made + ". This file asks for nothing outside."));
  const drawAll = () => redraws.forEach((draw) => draw());
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) { width = innerWidth; drawAll(); }
  });
}
