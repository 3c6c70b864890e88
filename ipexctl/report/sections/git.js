sections.git = () => {
  const git = data.git;
  if (!git) return [];
  const shown = el("pre", {textContent: git.diff.join("\n"), tabIndex: 0, role: "region", ariaLabel: "Changes"});
  const diff = el("details", {}, text("summary", "Changes that were not committed"), shown);
  return [table(["What", "Value"], git.rows, [1]), ...(git.diff.length ? [diff] : [])];
};
