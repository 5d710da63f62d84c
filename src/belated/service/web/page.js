/* What a person asks of a learner, from its report and its status. */
const $ = id => document.getElementById(id);
const ask = async path => {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {} });
  if (answer.status === 401 || answer.status === 403) { $("ask").hidden = false; throw new Error("A token is needed."); }
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.why);
  return told;
};
const capital = text => text[0].toUpperCase() + text.slice(1);
/* An action without a name has a number. */
const titled = name => /^\d+$/.test(name) ? "action " + name : name;
const card = (parent, title, note) => {
  const made = el("div", undefined, parent, "card");
  el("h3", title, made);
  if (note) el("p", note, made, "note");
  return made;
};
/* A part that opens, and stays open when the page is drawn again. */
function more(parent, key, title) {
  const made = el("details", undefined, parent);
  made.dataset.key = key;
  el("summary", title, made);
  return made;
}
/* The place of a chart, which is drawn once the page is there and its width known. */
function chart(parent, given) {
  const made = el("div", undefined, parent, "chart");
  made.draw = () => lines(made, given);
}
const rowOf = (parent, kind) => el("tr", undefined, parent, kind);
function headed(parent, kind, names) {
  const table = el("table", undefined, el("div", undefined, parent, "wide"), kind);
  const head = rowOf(el("thead", undefined, table));
  for (const name of names) el("th", name, head, name === names.bar ? "bar" : undefined);
  return el("tbody", undefined, table);
}
const cell = (row, label, kind) => { const made = el("td", undefined, row, kind); if (label) made.dataset.label = label; return made; };

function counts(parent, told) {
  const box = el("div", undefined, parent, "card numbers");
  for (const name of ["begun", "pending", "overdue", "late"]) {
    const one = el("div", undefined, box);
    number(el("b", undefined, one), told, name);
    el("span", { begun: told.decides ? "decisions" : "episodes" }[name] || name, one, "note");
  }
}
function actions(parent, told) {
  if (!told.actions.length) return;
  const box = card(parent, "Which action leads", `${capital(told.unit)} per decision with its 95 % interval, which knows what is pending; ${told.higher_is_better ? "more" : "less"} is better. Which is the best is a question about all visitors together.`);
  const held = told.actions.some(one => known(one.mean)) && told.holdout ? told.holdout.mean : null;
  const on = scale(told.actions.flatMap(one => [one.mean, one.low, one.high]).concat(known(held) ? [held] : []));
  const heads = ["action", told.unit + " per decision", "", "is the best", "probability now", "share, newest 7 days", "share of all", "decisions", "reported"];
  heads.bar = "";
  const table = headed(box, "stack", heads);
  const order = told.actions.map((_, i) => i).sort((i, j) => told.actions[i].retired - told.actions[j].retired || told.actions[j].leads - told.actions[i].leads || i - j);
  order.forEach((i, place) => {
    const one = told.actions[i], at = "actions." + i + ".", heard = known(one.mean);
    const row = rowOf(table, one.retired ? "retired" : place === 0 && told.actions.length > 1 && heard ? "leads" : "");
    const name = cell(row, "", "name");
    el("span", titled(one.name), name);
    if (one.retired) el("span", "retired", name, "tag");
    const mean = cell(row, told.unit);
    if (heard) number(mean, told, at + "mean");
    else el("span", "not known yet", mean, "note");
    if (one.low < one.high) { el("div", "", mean, "note"); const range = mean.lastChild; number(range, told, at + "low"); range.append(" to "); number(range, told, at + "high"); }
    const bar = cell(row, "", "bar");
    if (on && heard) interval(bar, on, one.low, one.mean, one.high, held);
    number(cell(row, "is the best"), told, at + "leads", percent);
    number(cell(row, "probability now"), told, at + "probability", percent);
    number(cell(row, "newest 7 days"), told, at + "recent_share", percent);
    number(cell(row, "of all"), told, at + "share", percent);
    number(cell(row, "decisions"), told, at + "plays");
    number(cell(row, "reported"), told, at + "reports");
  });
  if (on) {
    const row = rowOf(table, "axis");
    cell(row); cell(row);
    const under = cell(row, "", "bar");
    axis(under, on);
    el("div", told.unit + " per decision", under, "note");
    for (let k = 3; k < heads.length; k++) cell(row);
  }
  holdout(box, told);
}
function holdout(parent, told) {
  if (!told.holdout) return;
  const line = el("p", undefined, parent, "note");
  const key = el("span", undefined, line, "base key");
  key.style.position = "static";
  line.append("Baseline: the holdout, ");
  number(line, told, "holdout.share", percent);
  line.append(" of the decisions, plays at random");
  if (!told.holdout.reports) { line.append("."); return; }
  line.append(" and has brought ");
  number(line, told, "holdout.mean");
  if (told.holdout.low < told.holdout.high) { line.append(" ("); number(line, told, "holdout.low"); line.append(" to "); number(line, told, "holdout.high"); line.append(")"); }
  line.append(` ${told.unit} per decision so far; all decisions `);
  number(line, told, "holdout.all_mean");
  line.append(".");
}
function outcomes(parent, told) {
  const one = told.decides ? "decision" : "episode";
  const box = card(parent, `${capital(told.unit)} per day`, `Per ${one}, on the day it was made.`);
  const days = told.days, least = .5, thin = days.some(day => day.exposed < least && known(day.mean));
  if (!days.some(day => day.reports)) { el("p", days.length ? "No outcome is known yet." : "Nothing yet.", box, "note"); return; }
  const pick = name => days.map(day => day[name]), held = days.map(day => day.holdout && day.holdout.mean);
  const same = days.every(day => day.mean === day.so_far);
  const ripe = (values, i) => days[i].exposed < least ? null : values;
  const given = [{ label: same ? "all" : "with what is still to come", values: pick("mean").map(ripe), colour: "ink" }];
  if (!same) given.unshift({ label: "so far", values: pick("so_far"), colour: "soft" });
  if (held.some(known)) given.push({ label: "holdout", values: held.map(ripe), colour: "late", dash: [6, 4] });
  chart(box, { x: days.map(day => Date.parse(day.day + "T00:00:00Z") / 1000), lines: given, days: true, xLabel: "day (UTC)", yLabel: `${told.unit} per ${one}`, way: short, xWay: at => new Date(at * 1000).toISOString().slice(0, 10) });
  if (thin) el("p", "Days of which less than half can have come are in the table, not in the lines.", box, "note");
  const heads = ["day", one + "s", "reported", "so far", ...(same ? [] : ["with what is to come"]), ...(held.some(known) ? ["holdout"] : [])];
  const table = headed(more(box, "days", "As a table"), "", heads);
  days.forEach((_, k) => {
    const i = days.length - 1 - k, row = rowOf(table), at = "days." + i + ".";
    const day = el("td", undefined, row), when = el("time", days[i].day, day);
    when.dateTime = days[i].day;
    number(el("td", undefined, row), told, at + "decisions");
    number(el("td", undefined, row), told, at + "reports");
    number(el("td", undefined, row), told, at + "so_far");
    if (!same) number(el("td", undefined, row), told, at + "mean");
    if (held.some(known)) number(el("td", undefined, row), told, at + "holdout.mean");
  });
}
function delays(parent, told) {
  const box = card(parent, "How long reports take", told.delays.words ? capital(told.delays.words) + "." : undefined);
  const found = told.delays.quantiles;
  if (!found.length) { el("p", "Nothing has reported yet.", box, "note"); return; }
  const half = found.find(one => one.share === .5) || found[0], [name, many] = unit(half.days);
  const points = [[0, 0]];
  found.filter(one => one.days <= 12 * half.days || one.share <= .5).forEach((one, i, all) => {
    const next = all[i + 1], before = points.at(-1);
    if (next && next.days === one.days) { if (before[0] < one.days * many * .999) points.push([one.days * many * .999, before[1]]); }
    else points.push([one.days * many, one.share]);
  });
  if (points.at(-1)[0] > 0) chart(box, { x: points.map(at => at[0]), lines: [{ label: "reported", values: points.map(at => at[1]), colour: "ink" }], xLabel: name + " after the decision", yLabel: "share of reports", way: percent, xWay: at => short(at) + " " + name });
  const note = el("p", "Of ", box, "note");
  number(note, told, "delays.count");
  note.append((told.delays.count === 1 ? " first report" : " first reports") + (told.delays.corrected ? ", corrected for those still to come." : "."));
  const table = headed(more(box, "delays", "As a table"), "", ["share of reports", "within"]);
  found.forEach((_, i) => {
    const row = rowOf(table);
    number(el("td", undefined, row), told, "delays.quantiles." + i + ".share", percent);
    number(el("td", undefined, row), told, "delays.quantiles." + i + ".days", lasting);
  });
}
function features(parent, told) {
  if (!told.features.length) return;
  const box = card(parent, "Features that matter", `What a feature adds to the ${told.unit} of an action, with its 95 % interval. A number counts in its standard deviations, a value of a category beside the average visitor.`);
  const matters = one => one.low > 0 || one.high < 0, sure = told.features.filter(matters).length;
  if (!sure) el("p", "None surely so far.", box);
  const draw = (parent, wanted) => {
    const on = scale([0, ...told.features.flatMap(one => [one.low, one.high])]);
    const heads = ["feature", "action", "adds", ""];
    heads.bar = "";
    const table = headed(parent, "stack", heads);
    told.features.forEach((one, i) => {
      if (!wanted(one)) return;
      const row = rowOf(table), at = "features." + i + ".";
      el("span", one.feature, cell(row, "", "name"));
      el("span", titled(one.action), cell(row, "for"));
      number(cell(row, "adds"), told, at + "weight");
      interval(cell(row, "", "bar"), on, one.low, one.weight, one.high, 0);
    });
    const row = rowOf(table, "axis");
    cell(row); cell(row); cell(row);
    axis(cell(row, "", "bar"), on);
  };
  if (sure) draw(box, matters);
  if (sure < told.features.length) draw(more(box, "features", "Those that may not matter"), one => !matters(one));
}
/* For learners with tables: how the newest episodes went. */
function newest(parent, told, status) {
  if (!status.problem.states || told.decides && told.days.length > 1) return;
  const history = status.history, box = card(parent, "Newest episodes", history.length ? undefined : status.information === "full" ? "Costs are not known under full information." : "Nothing yet.");
  if (!history.length) return;
  const size = Math.max(1, Math.ceil(history.length / 60)), blocks = [];
  for (let i = 0; i < history.length; i += size) blocks.push(history.slice(i, i + size));
  const mean = (block, wanted) => block.reduce((sum, item) => sum + (wanted(item) ? item[1] : 0), 0) / block.length;
  const late = history.some(item => item[2]);
  const given = [{ label: "cost", values: blocks.map(block => mean(block, () => true)), colour: "ink" }];
  if (late) given.push({ label: "of it set by the deadline", values: blocks.map(block => mean(block, item => item[2])), colour: "late", dash: [6, 4] });
  chart(box, { x: blocks.map((_, i) => Math.min((i + 1) * size, history.length)), lines: given, xLabel: "episodes that are complete, oldest of the newest first", yLabel: "cost per episode", way: short, xWay: short, whole: true });
}
function operation(parent, status) {
  const box = more(parent, "operation", "For operators");
  const list = el("dl", undefined, box);
  const line = (name, path, way) => { el("dt", name, list); number(el("dd", undefined, list), status, path, way).dataset.from = "status"; };
  line("open episodes", "open");
  line("calls that wait for the agent", "waiting");
  line("rows written", "events");
  line("forgotten at the deadline", "counts.forgotten");
  line("set to the default at the deadline", "counts.defaulted");
  if (known(status.deadline)) line("deadline" + (status.deadline_unit === "seconds" ? "" : ", episodes"), "deadline", status.deadline_unit === "seconds" ? value => lasting(value / 86400) : short);
  for (const name in status.diagnostics) line(name, "diagnostics." + name);
  const rows = status.arrivals.slice(-10), names = ["begun", "decided", "taken", "duplicate", "late", "conflict", "unknown", "invalid"]
    .filter((name, i) => i < 3 || rows.some(row => row[name]));
  el("h3", "Requests of the last minutes", box);
  const table = headed(box, "", ["minutes ago", ...names]);
  const first = status.arrivals.length - rows.length;
  rows.forEach((row, i) => {
    const line = el("tr");
    table.prepend(line);
    el("td", Math.max(0, Math.floor(status.now / 60) - row.minute), line, "ago");
    names.forEach(name => { number(el("td", undefined, line), status, `arrivals.${first + i}.${name}`).dataset.from = "status"; });
  });
}
function words(parent, told) {
  const list = el("dl", undefined, more(parent, "words", "What the words mean"));
  for (const name in told.words) { el("dt", name, list); el("dd", told.words[name], list); }
}
function learner(told, status) {
  const made = el("section");
  made.id = "learner-" + told.name;
  el("h2", told.name, made);
  if (status.note) el("p", status.note, made, "note");
  if (told.verdict) el("p", told.verdict, made, "verdict");
  told.warnings.forEach(warning => { el("p", warning.text, made, "warning").dataset.kind = warning.kind; });
  counts(made, told);
  actions(made, told);
  const pair = el("div", undefined, made, "pair");
  outcomes(pair, told);
  delays(pair, told);
  newest(made, told, status);
  features(made, told);
  words(made, told);
  operation(made, status);
  return made;
}

let shown = [], last = "";
function put(section) {
  const open = new Set([...$("all").querySelectorAll("details[open]")].map(item => item.dataset.key));
  section.querySelectorAll("details").forEach(item => { item.open = open.has(item.dataset.key); });
  $("all").replaceChildren(section);
  section.querySelectorAll(".chart").forEach(item => item.draw());
}
async function show(again) {
  try {
    const { learners } = await ask("/v1/learners"), names = learners.map(one => one.name);
    const wanted = decodeURIComponent(location.hash.slice(1)), name = names.includes(wanted) ? wanted : names[0];
    $("names").replaceChildren(...names.map(one => {
      const link = el("a", one);
      link.setAttribute("href", "#" + one);
      if (one === name) link.setAttribute("aria-current", "page");
      return link;
    }));
    if (!name) { $("say").textContent = "There is no learner that you may read."; return; }
    const base = "/v1/learners/" + name;
    try {
      if (learners.find(one => one.name === name).still) throw new Error("Decisions are made here, but learning stands still: the server that learns has taken no decision for 10 seconds.");
      shown = await Promise.all([ask(base + "/report"), ask(base)]);
    }
    catch (error) { const made = el("section"); el("h2", name, made); el("p", String(error.message), made, "warning"); put(made); throw error; }
    const now = JSON.stringify([{ ...shown[0], now: 0 }, { ...shown[1], now: 0 }]);
    if (again || now !== last) { put(learner(...shown)); last = now; }
    $("say").textContent = "As of " + new Date().toLocaleTimeString() + "; read again every 15 seconds.";
  } catch (error) { $("say").textContent = String(error.message); last = ""; }
}
$("ask").onsubmit = event => { event.preventDefault(); sessionStorage.setItem("token", $("token").value); $("ask").hidden = true; show(); };
addEventListener("hashchange", () => { last = ""; show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (last) put(learner(...shown)); });
show();
setInterval(() => { if (!document.hidden && $("ask").hidden) show(); }, 15000);
