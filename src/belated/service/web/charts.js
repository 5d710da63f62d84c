/* Charts. Lines are drawn by uPlot on a canvas, bars with names beside them are elements. */
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

/* Round numbers between low and high, at most so many. */
function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(size => size >= rough * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(+(k * step).toPrecision(12));
  return found;
}

/* A scale for bars: the range of the numbers, a little wider. */
function scale(numbers) {
  const found = numbers.filter(known);
  let low = Math.min(...found), high = Math.max(...found);
  if (!found.length) return null;
  if (high - low <= .005 * Math.max(-low, high)) { low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
  const at = x => 100 * (x - low) / (high - low);
  return { low, high, at };
}
function track(parent) { return el("span", undefined, parent, "track"); }
function placed(parent, kind, on, from, to) {
  const made = el("span", undefined, parent, kind);
  made.style.left = on.at(from) + "%";
  if (known(to)) made.style.width = Math.max(.5, on.at(to) - on.at(from)) + "%";
  return made;
}
/* An interval with its middle, and a dashed line where the baseline is. */
function interval(parent, on, low, middle, high, base) {
  const made = track(parent);
  if (known(base)) placed(made, "base", on, base);
  if (known(low) && known(high)) placed(made, "span", on, low, high);
  if (known(middle)) placed(made, "dot", on, middle);
}
function axis(parent, on, most = 4) {
  const made = track(parent);
  for (const value of ticks(on.low, on.high, most)) placed(made, "tick", on, value).textContent = short(value);
}

const drawn = new Set();
/* Draw lines into a box. x: seconds of days, or numbers. lines: label, values, colour, dash. */
function lines(box, { x, lines: given, xLabel, yLabel, days, way, xWay, whole }) {
  const plain = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18, labelGap: 2 };
  const DAY = 86400, values = given.flatMap(line => line.values).filter(known);
  const top = Math.max(0, ...values), bottom = Math.min(0, ...values), high = top > bottom ? top + .08 * (top - bottom) : 1;
  const made = new uPlot({
    width: Math.max(200, box.clientWidth), height: 230, padding: [12, 20, 0, 0],
    tzDate: at => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    legend: { markers: { width: 0, fill: (_, i) => i ? colour(given[i - 1].colour) : "" } },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: days, range: (_, low, high) => days ? [x[0] - DAY / 2, x.at(-1) + DAY / 2] : [Math.min(0, low), high > low ? high : low + 1] },
      y: { range: () => [bottom < 0 ? bottom - .08 * (top - bottom) : 0, high] },
    },
    axes: [
      { ...plain, label: xLabel, size: 30, space: 44, ...(days
        ? { ...(x.length <= 7 ? { splits: () => x } : { incrs: [1, 2, 5, 10, 30, 91, 182, 365].map(n => n * DAY) }), values: (_, at) => at.map(t => uPlot.fmtDate("{D} {MMM}")(uPlot.tzDate(new Date(t * 1000), "Etc/UTC"))) }
        : { ...(whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}), values: (_, at) => at.map(short) }) },
      { ...plain, label: yLabel, size: 48, values: (_, at) => at.map(way) },
    ],
    series: [
      { label: xLabel, value: (_, at) => known(at) ? xWay(at) : "" },
      /* A few points may lie on each other: the last one is drawn on top, and is the smallest. */
      ...given.map((line, i) => ({ label: line.label, stroke: colour(line.colour), width: 2, dash: line.dash, points: { show: x.length < 60, size: x.length > 7 ? 5 : 5 + 4 * (given.length - 1 - i), fill: colour(line.colour) }, spanGaps: false, value: (_, at) => known(at) ? way(at) : "" })),
    ],
  }, [x, ...given.map(line => line.values)], box);
  drawn.add([box, made]);
}
/* Charts follow the width of their place. */
addEventListener("resize", () => drawn.forEach(item => {
  const [box, chart] = item;
  if (!box.isConnected) drawn.delete(item);
  else chart.setSize({ width: Math.max(200, box.clientWidth), height: 230 });
}));
