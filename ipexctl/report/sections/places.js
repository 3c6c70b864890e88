sections.places = () => {
  const grid = el("div", {className: "two"});
  for (const host of data.places) {
    const box = panel(host.hosts), of = new Map(), moved = new Set();
    for (const r of host.ranks) {
      for (const cpu of r.planned) of.set(cpu, [...(of.get(cpu) || []), r.rank]);
      if (r.real && (r.real.length !== r.planned.length || r.real.some((c) => !r.planned.includes(c)))) {
        moved.add(r.rank);
        for (const cpu of r.real) if (!of.has(cpu)) of.set(cpu, [r.rank]);
      }
    }
    for (const [socket, node, cores] of host.sockets) {
      const title = [socket !== null ? "socket " + socket : "", node !== null ? "NUMA node " + node : ""];
      box.append(text("p", title.filter(Boolean).join(", ") || "cores", "soft"));
      const cells = cores.map((core) => {
        const own = [...new Set(core.flatMap((cpu) => of.get(cpu) || []))];
        const name = own.length === 1 ? "r" + own[0] : own.length ? "shared" : "free";
        const cell = text("span", name, own.length ? "used" : "");
        cell.title = "CPU " + core.join(", ") + ": " + (own.length ? "rank " + own.join(", ") : "free");
        if (own.length) cell.style.background = `var(${colour(own.length > 1 ? 7 : own[0])})`;
        if (own.some((r) => moved.has(r))) cell.classList.add("moved");
        return cell;
      });
      box.append(el("div", {className: "cores"}, ...cells));
    }
    if (!host.sockets.length) box.append(empty("Its cores are not recorded."));
    const known = host.ranks.some((r) => r.real);
    const words = moved.size ? "Not where the plan has them: rank " + [...moved].join(", ")
      : known ? "All ranks ran where the plan has them." : "Where the ranks really ran is not known.";
    box.append(text("p", words + (host.shown ? " The ranks of " + host.shown + " are shown." : ""), "soft"));
    grid.append(box);
  }
  return data.places.length ? [grid] : [];
};
