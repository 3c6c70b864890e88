sections.usage = () => !data.usage.length ? [] : [el("div", {className: "two"}, ...data.usage.map((u) =>
  panel(u.title + " (" + u.unit + ")", chart(u, u.title + " over time", 180))))];
