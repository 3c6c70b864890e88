sections.differences = (words) => {
  const lines = data.compared.map((line) => text("p", line, "soft"));
  const found = data.comparison ? data.comparison.differences : [];
  if (!found.length) return [...lines, empty(words.empty)];
  const list = (title, rows) => [text("h3", title), el("ul", {className: "differences"},
    ...rows.map((d) => text("li", d.text, d.explains ? "difference explains" : "difference")))];
  return [...lines, ...[...new Set(found.map((d) => d.part))].flatMap((part) =>
    list(part ? "Longer: " + words.labels[part] : "Other differences", found.filter((d) => d.part === part)))];
};
