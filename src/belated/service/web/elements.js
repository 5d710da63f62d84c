/* An element with this text, and this class, at the end of its parent. */
const el = (name, text, parent, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.append(made);
  return made;
};
