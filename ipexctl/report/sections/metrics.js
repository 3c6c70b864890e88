sections.metrics = () => [el("div", {className: "three"}, ...data.metrics.map((m) =>
  panel(m.title, chart(m, m.title + " by " + m.axis, 140))))];
