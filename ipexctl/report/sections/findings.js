sections.findings = () => {
  const seen = data.findings, when = " at the start, " + data.began;
  if (!seen) return [];
  return [seen.length ? table(["Check", "Hosts", "Found" + when], seen)
    : empty("The preflight found nothing" + when + ".")];
};
