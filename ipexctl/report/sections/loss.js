// of an output without losses, the speed
sections.loss = () => {
  const found = data.loss || data.rate, title = data.loss || !found ? "Loss" : "Speed";
  document.getElementById("loss-title").textContent = title;
  return found ? [chart(found, title + " by " + found.axis, 240)] : [];
};
