/* Numbers as people read them. A number of the API is a <data> element with the number itself as
   its value and its place in the answer as data-of, such as actions.0.mean. */
const known = x => x !== null && x !== undefined;
const short = x => Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en")
  : Math.abs(x) >= 100 ? String(Math.round(x)) : String(+(+x).toPrecision(3));
const percent = x => {
  const shown = x >= .1 ? String(Math.round(100 * x)) : String(+(100 * x).toPrecision(2));
  return (shown === "100" && x < 1 ? "> 99" : shown) + " %";
};
const UNITS = [["days", 1], ["hours", 24], ["minutes", 1440], ["seconds", 86400]];
/* The largest unit in which this many days are at least one. */
const unit = days => UNITS.find(([, many]) => days * many >= 1) || UNITS[3];
const lasting = days => { const [name, many] = unit(days); return short(days * many) + " " + name; };
function number(parent, told, path, way = short) {
  const value = path.split(".").reduce((item, key) => known(item) ? item[key] : item, told);
  if (!known(value)) return el("span", "\u2013", parent, "note");
  const made = el("data", way(value), parent);
  made.value = String(value);
  made.dataset.of = path;
  return made;
}
