const restart = ([number, , , , , lasted, why], [next, , from, , repeated]) => text("p",
  `Attempt ${number} ended after ${lasted}: ${why}. Attempt ${next} began from ${from}` +
  (repeated ? ` and repeated ${repeated}.` : "."));

sections.result = () => {
  const made = [text("p", (data.name ? data.name + " · " : "") + data.run, "id mono"),
    text("h1", data.headline, data.tone),
    el("p", {className: "command"}, text("code", data.command)),
    ...(data.queued ? [text("p", data.queued)] : []),
    ...data.attempts.slice(1).map((next, n) => restart(data.attempts[n], next)).slice(-5),
    ...data.notes.map((note) => text("p", note, "soft"))];
  if (!data.cause) return made;
  const box = el("div", {className: "cause"}, el("p", {}, text("strong", data.cause.text)));
  if (data.cause.raised) box.append(text("p", data.cause.raised));
  for (const [lines, label] of [[data.cause.evidence, "What the ranks do"], [data.cause.lines, "Last lines of that rank"]]) {
    if (!lines.length) continue;
    box.append(el("pre", {textContent: lines.join("\n"), tabIndex: 0, role: "region", ariaLabel: label}));
  }
  if (data.cause.known) box.append(text("p", data.cause.known));
  if (data.cause.again) box.append(el("p", {}, "Again: ", text("code", data.cause.again)));
  return [...made, box];
};
