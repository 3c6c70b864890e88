sections.environment = (words) => {
  const rows = [...data.facts, ...data.environment], made = [];
  if (rows.length) made.push(table(["What", "Value"], rows, [1]));
  if (data.packages.length) made.push(el("details", {}, text("summary", data.packages.length + " packages"),
    table(["Package", "Version"], data.packages, [0, 1])));
  return data.environment.length ? made : [...made, empty(words.empty)];
};
