function mixed(a, b, share) {
  const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  const at = (i) => Math.round(part(a, i) + (part(b, i) - part(a, i)) * share);
  return `rgb(${at(0)}, ${at(1)}, ${at(2)})`;
}

function heat(found) {
  const values = found.rows.flatMap((r) => r[1]).filter((v) => v !== null).sort((a, b) => a - b);
  const box = panel(found.title);
  if (!values.length) return null;
  const low = values[0], high = Math.max(values[Math.floor(values.length * 0.99)], low * 1.1, low + 1e-9);
  box.append(text("p", found.text, "soft"));
  const canvas = el("canvas", {role: "img"});
  canvas.setAttribute("aria-label", found.title + ": " + found.text);
  const at = text("output", "", "soft");
  const rows = found.rows.length, columns = found.rows[0][1].length;
  const height = Math.min(420, Math.max(40, rows * (rows > 40 ? 6 : 20)));
  canvas.style.height = height + "px";
  const draw = () => {
    canvas.width = columns * 8;
    canvas.height = rows * 8;
    canvas.style.imageRendering = "pixelated";
    const pen = canvas.getContext("2d"), cold = css("--cold"), hot = css("--hot");
    found.rows.forEach((row, y) => row[1].forEach((v, x) => {
      if (v === null) return;
      pen.fillStyle = mixed(cold, hot, Math.min(1, Math.max(0, (v - low) / (high - low))));
      pen.fillRect(x * 8, y * 8, 8, 8);
    }));
  };
  canvas.addEventListener("mousemove", (event) => {
    const r = canvas.getBoundingClientRect();
    const x = Math.min(columns - 1, Math.floor((event.clientX - r.left) / r.width * columns));
    const y = Math.min(rows - 1, Math.floor((event.clientY - r.top) / r.height * rows));
    const row = found.rows[Math.max(0, y)], when = found.from + (found.to - found.from) * (x + 0.5) / columns;
    at.textContent = row[0] + ", " + clock(when) + ": " + number(row[1][Math.max(0, x)]) + " " + found.unit;
  });
  redraws.push(draw);
  const names = rows > 8 ? [found.rows[0][0], found.rows[rows - 1][0]] : found.rows.map((r) => r[0]);
  box.append(el("div", {className: "scale"}, text("span", number(low) + " " + found.unit), el("i"),
    text("span", number(high) + " " + found.unit), at),
    el("div", {className: "heat"}, el("div", {className: "names"}, ...names.map((n) => text("span", n))), canvas,
      el("div", {className: "times"}, text("span", clock(found.from)), text("span", clock(found.to)))));
  return box;
}

sections.ranks = () => {
  const speed = data.loss && data.rate ? [panel("Speed", chart(data.rate, "Steps per second over time", 180))] : [];
  const made = [...speed, ...data.heat.map(heat).filter(Boolean)];
  return made.length ? [el("div", {className: "two"}, ...made)] : [];
};
