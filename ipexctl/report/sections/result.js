sections.result = () => {
  const made = [text("p", (data.name ? data.name + " · " : "") + data.run, "id mono"),
    text("h1", data.headline, data.tone),
    el("p", {className: "command"}, text("code", data.command)),
    ...data.notes.map((note) => text("p", note, "soft"))];
  if (!data.cause) return made;
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
  return [...made, box];
};
