sections.cards = () => [el("dl", {className: "cards"}, ...data.cards.map((c) =>
  el("div", {className: "card"}, text("dt", c.label),
    text("dd", c.value, `value ${c.value === "unknown" ? "unknown" : c.tone}`),
    text("dd", c.note, "note"))))];
