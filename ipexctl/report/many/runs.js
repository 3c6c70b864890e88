// The page of many runs, after report/assets/page.js, whose functions it uses.
const runs = data.runs, MOST_CURVES = 6, MOST_SCRIPTS = 3;
const title = (run) => run.name || run.id;
const counts = new Map();
for (const run of runs) counts.set(title(run), (counts.get(title(run)) || 0) + 1);
const unlike = (run) => counts.get(title(run)) > 1 ? title(run) + " " + run.id : title(run);
const partOf = (run, part) => data.tables[run.parts[part]];  // undefined: nothing recorded it
const setting = (run, [part, name]) => partOf(run, part) ? partOf(run, part)[name] ?? "" : null;
const short = (name) => name.replace(/^--?/, "");
const scriptOf = (run) => setting(run, ["arguments", "script"]);
const several = (values) => new Set(values).size > 1;

// --- columns: head, value to sort by, text, a smaller text below it, which end is better ---

const placeOf = (m) => m.axis.replace(/ n$/, "");
function metricColumn(metric) {
  const of = (run) => run.metrics[metric.name], column = {metric, better: metric.better, numeric: true, result: true,
    bad: (r) => of(r) && of(r).last === null};
  const last = (m) => m.last === null ? m.ends : number(m.last, 4);
  if (!metric.better) return {...column, head: "last " + metric.name, key: (r) => of(r)?.last ?? null, text: (r) => of(r) ? last(of(r)) : "–"};
  return {...column, head: "best " + metric.name,
    key: (r) => of(r) && of(r).last !== null ? of(r).best : null,  // it does not count in a run that ended with nan
    text: (r) => of(r) && of(r).best !== null ? number(of(r).best, 4) : "–",
    // an early dip of a noisy curve may be the best value: where it is shows that
    below: (r) => !of(r) ? "" : [...(of(r).best === null ? [] : [`${placeOf(of(r))} ${number(of(r).best_at, 6)}`]),
      ...(of(r).best === of(r).last ? [] : ["last " + last(of(r))])].join(", ")};
}

function settingColumns(part) {
  return data.settings.filter((s) => s[0] === part)
    .map((s) => ({head: short(s[1]), setting: s, key: (r) => asNumber(setting(r, s)), text: (r) => setting(r, s) ?? "?"}));
}

const constant = (metric) => runs.every((r) => !r.metrics[metric.name] || !several(r.metrics[metric.name].y));
// a number that never changes within a run is a setting, which has its column already
const measured = data.metrics.filter((m) => m.better || !constant(m));
const ranking = measured.find((m) => m.name === data.ranking);
const stateWords = (r) => r.state + (r.attempts > 1 ? `, started ${r.attempts} times` : "") + (r.bad_loss ? `, loss is ${r.bad_loss}` : "");
const allColumns = [
  {head: "Name", key: title, text: title},
  {head: "By", key: (r) => r.by, text: (r) => r.by || "–"},
  ...settingColumns("arguments"),
  ...settingColumns("variables"),
  ...(ranking ? [metricColumn(ranking)] : []),
  {head: "State", key: (r) => r.state, text: stateWords, below: (r) => r.cause, result: true},
  {head: "Time", key: (r) => r.seconds, text: (r) => r.took || "–", result: true},
  {head: "Speed", key: (r) => hasSpread(r) ? r.speed.rate : null, text: (r) => r.speed ? r.speed.text : "–", better: "high", numeric: true,
    unsure: (r) => hasSpread(r) || !r.speed ? "" : "The run was too short to tell."},
  ...measured.filter((m) => m !== ranking).map(metricColumn),
  {head: "When", key: (r) => r.began, text: (r) => r.when || "–"},
  {head: "Hosts", key: (r) => r.hosts, text: (r) => r.hosts, alike: true},
  {head: "Ranks", key: (r) => r.ranks, text: (r) => String(r.ranks || "–"), numeric: true, alike: true},
  {head: "Commit", key: (r) => r.commit, text: (r) => r.commit.slice(0, 10) || "–", alike: true},
  ...(several(runs.map((r) => r.tree)) ? [{head: "Code", key: (r) => r.tree, text: (r) => r.tree || "–"}] : []),
].filter((column) => runs.some((r) => column.text(r) !== "–"));
// what all runs have in common is a line above the table
const alike = allColumns.filter((column) => column.alike && runs.length > 1 && !several(runs.map(column.text)));
const columns = allColumns.filter((column) => !alike.includes(column));

function asNumber(value) {
  return value !== null && value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
}

// what other scripts print or do in a step is something else
const byScript = new Map();
for (const run of runs) if (scriptOf(run)) byScript.set(scriptOf(run), [...(byScript.get(scriptOf(run)) || []), run]);

function bestOf(column, group) {
  const found = column.better ? group.map(column.key).filter((v) => v !== null) : [];
  return found.length < 2 ? null : column.better === "low" ? Math.min(...found) : Math.max(...found);
}

function compareValues(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

// --- the table ---

const first = columns.find((c) => ranking ? c.metric === ranking : c.better);
const rankings = (first ? [...byScript.values()] : []).map((group) => group.filter((r) => first.key(r) !== null)
  .sort((a, b) => (first.better === "low" ? 1 : -1) * (first.key(a) - first.key(b))))
  .filter((group) => group.length > 1).sort((a, b) => b.length - a.length);
const ranked = rankings[0] || [];
const chosen = new Set((ranked.length ? ranked : runs).slice(0, MOST_CURVES));
let sorted = ranked.length ? {column: first, down: first.better === "high"} : {column: columns.find((c) => c.head === "When") || columns[0], down: true};
const rowsOf = new Map();
const tbody = el("tbody");

function cellOf(run, column, n) {
  const words = column.text(run), best = bestOfColumn.get(column).get(scriptOf(run)) ?? null;
  const tone = column.bad?.(run) || column.head === "State" && run.state === "failed" ? "bad"
    : best !== null && column.key(run) === best ? "good best" : column.unsure?.(run) ? "soft" : "";
  const cell = el(n ? "td" : "th", {className: (column.numeric ? "number " : words.length > 24 ? "long " : "") + tone, ...(n ? {} : {scope: "row"})});
  cell.append(words);
  if (column.below?.(run)) cell.append(text("span", column.below(run), "below"));
  cell.title = column.head === "State" ? run.cause : column.unsure?.(run) || "";
  if (n) return cell;
  cell.title = run.id + "\n" + run.command;
  if (counts.get(title(run)) > 1) cell.append(text("span", run.id, "id"));
  if (run.only_here) cell.append(text("span", "only in this folder", "id"));
  for (const [name, href] of run.links) cell.append(el("a", {href, title: name, textContent: name.split(" ")[0]}));
  return cell;
}
const bestOfColumn = new Map(columns.map((column) =>
  [column, new Map([...byScript].map(([script, group]) => [script, bestOf(column, group)]))]));

function makeRow(run) {
  const box = el("input", {type: "checkbox", checked: chosen.has(run), ariaLabel: "Show the curves of " + unlike(run)});
  box.addEventListener("change", () => {
    box.checked ? chosen.add(run) : chosen.delete(run);
    showCurves();
  });
  return el("tr", {}, el("td", {className: "pick"}, box), ...columns.map((column, n) => cellOf(run, column, n)));
}

function sortRows() {
  const {column, down} = sorted;
  const order = [...runs].sort((a, b) => {
    const x = column.key(a), y = column.key(b);
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;  // unknown values come last
    return (down ? -1 : 1) * compareValues(x, y);
  });
  tbody.append(...order.map((run) => rowsOf.get(run)));
  heads.forEach((head, n) => head.setAttribute("aria-sort", columns[n] === column ? down ? "descending" : "ascending" : "none"));
}

const heads = columns.map((column) => {
  const button = el("button", {type: "button", textContent: column.head});
  button.addEventListener("click", () => {
    const again = sorted.column === column;
    sorted = {column, down: again ? !sorted.down : column.better === "high" || column.head === "When"};
    sortRows();
  });
  return el("th", {scope: "col", className: column.numeric ? "number" : ""}, button);
});

function showTable() {
  for (const run of runs) rowsOf.set(run, makeRow(run));
  const all = el("button", {type: "button", textContent: "clear", ariaLabel: "Show no curves"});
  all.addEventListener("click", () => {
    chosen.clear();
    for (const row of rowsOf.values()) row.querySelector("input").checked = false;
    showCurves();
  });
  const top = el("tr", {}, el("th", {className: "pick", scope: "col"}, all), ...heads);
  if (alike.length) body("table").append(text("p", "The same in all: " + alike.map((c) => `${c.head.toLowerCase()} ${c.text(runs[0])}`).join(", ") + ".", "soft"));
  body("table").append(text("p", "Click a heading to sort. The curves of checked runs are below the table. Time: from the first start to " +
    "the end, without the queue. Speed and metrics: of the last attempt; bold: the best of a script; grey: too short to tell.", "soft"));
  body("table").append(el("div", {className: "scroll runs", tabIndex: 0, role: "region", ariaLabel: "Runs"},
    el("table", {}, el("thead", {}, top), tbody)));
  sortRows();
}

// --- curves on top of each other ---

const middleOf = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

// a run that diverged would flatten all others: the axis is theirs, and a line above names it
function farOff(reach) {
  if (reach.length < 3) return [];
  const high = middleOf(reach.map((r) => r.high)), low = middleOf(reach.map((r) => r.low)), far = Math.max(4 * (high - low), 9 * Math.abs(high));
  return reach.filter((r) => r.high > high + far || r.low < low - far);
}
const outsideWords = (reach) => "Outside of this chart: " + reach.map((r) => `${unlike(r.run)} (${[...new Set([number(r.low), number(r.high)])].join(" to ")})`).join(", ");

function divergedCurves(curves) {
  return farOff(curves.map(([run, m]) => {
    const later = m.y.slice(Math.floor(m.y.length / 5));  // all begin high
    return {run, low: Math.min(...later), high: Math.max(...later)};
  }));
}

function joinCurves(shown, name, axis) {
  const curves = shown.map((run) => [run, run.metrics[name]]).filter(([, m]) => m && m.axis === axis && m.y.length);
  const x = [...new Set(curves.flatMap(([, m]) => m.x))].sort((a, b) => a - b);
  const at = new Map(x.map((place, n) => [place, n]));
  const series = curves.map(([run, m]) => {
    const y = new Array(x.length).fill(null);
    m.x.forEach((place, n) => { y[at.get(place)] = m.y[n]; });
    return {name: unlike(run), y};
  });
  const diverged = divergedCurves(curves), within = curves.filter(([run]) => !diverged.some((d) => d.run === run)).flatMap(([, m]) => m.y);
  if (!diverged.length || !within.length) return {axis, unit: "", x, series};
  return {axis, unit: "", x, series, within: [Math.min(...within), Math.max(...within)], note: outsideWords(diverged)};
}

// --- the best value against each setting that differs ---

const positive = (values) => values.every((v) => v > 0), wide = (values) => positive(values) && Math.max(...values) >= 100 * Math.min(...values);

function settingPoints(column) {
  const group = ranked.filter((run) => column.text(run) !== "?" && column.text(run) !== "");
  const numeric = group.every((run) => typeof column.key(run) === "number");
  const names = numeric ? [] : [...new Set(group.map(column.text))].sort();
  const all = group.map((run) => ({run, x: numeric ? column.key(run) : names.indexOf(column.text(run)), y: first.key(run)})).sort((a, b) => a.x - b.x);
  const outside = farOff(all.map(({run, y}) => ({run, low: y, high: y}))), points = all.filter((p) => !outside.some((o) => o.run === p.run));
  return {points, names, log: numeric && wide(points.map((p) => p.x)), note: outside.length ? outsideWords(outside) : ""};
}

function scatter({points, names, log, note}, label) {
  const box = el("div", {className: "chart", role: "img"});
  box.setAttribute("aria-label", `${label}: ` + points.map((p) => `${names[p.x] ?? number(p.x)} ${number(p.y, 4)}`).join("; "));
  if (note) box.append(text("p", note, "bad"));
  const ys = points.map((p) => p.y), logY = Math.max(...ys) > 1e3 * Math.min(...ys) && positive(ys);
  let plot = null;
  redraws.push(() => {
    if (plot) plot.destroy();
    const axis = {stroke: css("--soft"), grid: {stroke: css("--line"), width: 1}, ticks: {stroke: css("--line"), width: 1}, font: "12px system-ui, sans-serif"};
    const xs = points.map((p) => p.x), least = xs[0], most = xs[xs.length - 1], room = (most - least || 1) * 0.05;
    const range = log ? [least / 1.3, most * 1.3] : [least - room, most + room];
    const ticks = names.length ? {splits: () => names.map((_, n) => n), values: (u, all) => all.map((n) => names[n] ?? "")}
      : {values: (u, all) => all.map((v) => v === null ? "" : number(v, 4))};
    const steep = log ? {splits: (u, a, low, high) => powers(low, high), filter: (u, all) => all} : {};
    const marks = {label: first.head, stroke: css(colour(0)), paths: () => null, points: {show: true, size: 8, fill: css(colour(0))}};
    plot = new uPlot({width: Math.max(200, box.clientWidth || 300), height: 220, cursor: {drag: {x: false, y: false}}, legend: {show: false},
      scales: {x: {time: false, range, distr: log ? 3 : 1}, y: {distr: logY ? 3 : 1}}, series: [{}, marks],
      axes: [{...axis, ...ticks, ...steep, space: 60}, {...axis, size: 60, space: 24, values: (u, all) => all.map((v) => v === null ? "" : number(v, 4))}]},
    [xs, ys], box);
  });
  return box;
}

function showSettings() {
  const box = body("settings"), shown = ranked.length > 2 ? columns.filter((c) => c.setting) : [];
  const panels = shown.map((column) => [column, settingPoints(column)]).filter(([, p]) => p.points.length > 2 && several(p.points.map((one) => one.x)))
    .map(([column, points]) => panel(column.head, scatter(points, `${first.head} by ${column.head}`)));
  if (panels.length) box.append(text("h2", `${first.head} by setting`), el("div", {className: "two"}, ...panels));
}

function showCurves() {
  const box = body("curves"), shown = runs.filter((run) => chosen.has(run));
  box.replaceChildren(text("h2", "Curves"));
  redraws.length = 0;
  const panels = measured.filter((m) => !constant(m)).flatMap((metric) => {
    const axes = [...new Set(shown.map((run) => run.metrics[metric.name]?.axis).filter(Boolean))];
    return axes.map((axis) => panel(metric.name, chart(joinCurves(shown, metric.name, axis), metric.name, 240)));
  });
  box.append(panels.length ? el("div", {className: "two"}, ...panels) : empty("Check runs in the table whose curves are to be shown."));
  redraws.forEach((draw) => draw());
}

// --- two runs ---

const PARTS = {arguments: "Arguments", variables: "Variables", versions: "Versions", hosts: "Hosts", code: "Code", data: "Data"};

function hasSpread(run) { return Boolean(run.speed) && run.speed.spread !== null; }

function speedWords(a, b) {
  if (!a.speed || !b.speed) return "The speed of one of them is not known.";
  const times = a.speed.rate / b.speed.rate, words = `${a.speed.text}, against ${b.speed.text}`;
  if (a.speed.unit !== b.speed.unit) return `Speed: ${words}. One prints steps, the other epochs.`;
  if (!hasSpread(a) || !hasSpread(b)) return `Speed: ${words}. The runs were too short to tell a difference from noise.`;
  // as speed_change in report/comparison/run_difference.py
  const spread = (s) => s.spread * (1 + 3 / s.windows), noise = Math.max(0.05, Math.hypot(spread(a.speed), spread(b.speed), a.speed.error, b.speed.error));
  const differs = Math.abs(Math.log(times)) > Math.log(1 + noise);
  return differs ? `${unlike(a)} is ${number(times)} times as fast: ${words}.`
    : `No difference in speed beyond noise (${Math.round(100 * noise)} %): ${words}.`;
}

function differingRows(a, b) {
  const rows = [], unknown = [], same = [];
  for (const [part, label] of Object.entries(PARTS)) {
    const x = partOf(a, part), y = partOf(b, part);
    if (!x || !y) { unknown.push(label.toLowerCase()); continue; }
    const names = [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((name) => x[name] !== y[name]);
    if (!names.length) same.push(label.toLowerCase());
    const shown = (values, name) => values[name] === undefined ? "not there" : part === "code" ? values[name].slice(0, 8) : values[name];
    for (const name of names) rows.push([label, short(name), shown(x, name), shown(y, name)]);
  }
  if (a.commit !== b.commit) rows.push(["Code", "commit", a.commit.slice(0, 10) || "?", b.commit.slice(0, 10) || "?"]);
  return {rows, unknown, same};
}

function resultRows(a, b) {
  const words = (c, run) => c.text(run) + (c.below?.(run) ? ` (${c.below(run)})` : "");
  return columns.filter((c) => c.result).map((c) => ["Result", c.head, words(c, a), words(c, b)])
    .filter(([, , x, y]) => x !== "–" || y !== "–");
}

let pair = [ranked[0] || runs[0], ranked[1] || runs[1] || runs[0]];
function showPair() {
  const box = body("pair");
  const choice = (n) => {
    const select = el("select", {ariaLabel: n ? "Compared with" : "Run"},
      ...runs.map((run, i) => el("option", {value: i, textContent: unlike(run), selected: run === pair[n]})));
    select.addEventListener("change", () => { pair[n] = runs[select.value]; showPair(); });
    return select;
  };
  const [a, b] = pair, {rows, unknown, same} = differingRows(a, b);
  box.replaceChildren(text("h2", "Two runs compared"), el("p", {className: "choice"}, choice(0), " against ", choice(1)));
  if (a === b) return box.append(empty("Choose two different runs."));
  box.append(text("p", speedWords(a, b)));
  box.append(table(["Part", "What", unlike(a), unlike(b)], [...rows, ...resultRows(a, b)], [2, 3]));
  if (same.length) box.append(empty("The same in both: " + same.join(", ") + "."));
  if (unknown.length) box.append(empty("Not known of both: " + unknown.join(", ") + "."));
  box.append(el("p", {className: "empty"}, "Where the time of a step goes: ", text("code", `ipexctl report ${a.id} --compare ${b.id}`)));
}

const inWords = (run) => first.text(run) + (first.below?.(run) ? ` (${first.below(run)})` : "");
const summary = [...new Set(runs.map((r) => r.state))].map((state) => `${runs.filter((r) => r.state === state).length} ${state}`).join(", ");
function winnerLine(ranking) {
  const [winner] = ranking, ties = ranking.filter((run) => first.key(run) === first.key(winner)).length - 1;
  return text("p", `${first.head.replace(/^best /, "Best ")}: ${inWords(winner)}, ${unlike(winner)}`
    + data.settings.filter((s) => s[0] === "arguments" && setting(winner, s)).map((s) => `, ${short(s[1])} ${setting(winner, s)}`).join("")
    + (ties ? ` (${ties} more with the same value)` : ""));
}
body("head").append(text("h1", (data.project ? data.project + ": " : "") + `${runs.length} runs`), text("p", summary, "soft"),
  ...rankings.slice(0, MOST_SCRIPTS).map(winnerLine), ...data.notes.map((note) => text("p", note, "warm")));
showTable();
showSettings();
showPair();
drawSections({});
showCurves();
