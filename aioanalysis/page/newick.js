/** Newick trees: text to nodes {name, length, children}. */

const TOKEN = /\s*(?:\[[^\]]*\]|'((?:[^']|'')*)'|([(),:;])|([^\s(),:;[\]']+))/y;

/** The root of the first tree in `text`, or null when it is none. */
export function parseNewick(text) {
  const root = node();
  const open = [root];
  let expectsLength = false;
  TOKEN.lastIndex = 0;
  for (;;) {
    const match = TOKEN.exec(text);
    if (!match) return null;
    const [, quoted, sign, word] = match;
    const here = open.at(-1);
    if (sign === ";") return open.length === 1 && root.children.length ? root : null;
    if (sign === "(") {
      open.push(child(here));
    } else if (sign === ",") {
      if (open.length < 2) return null;
      open.pop();
      open.push(child(open.at(-1)));
    } else if (sign === ")") {
      if (open.length < 2) return null;
      open.pop();
    } else if (sign === ":") {
      expectsLength = true;
      continue;
    } else if (expectsLength && word !== undefined) {
      here.length = Number(word);
      if (!Number.isFinite(here.length)) return null;
    } else if (quoted !== undefined) {
      here.name = quoted.replaceAll("''", "'");
    } else if (word !== undefined) {
      here.name = here.name ? `${here.name} ${word}` : word.replaceAll("_", " ");
    }
    if (sign || word !== undefined || quoted !== undefined) expectsLength = false;
  }
}

function node() {
  return { name: "", length: 0, children: [] };
}

function child(parent) {
  const made = node();
  parent.children.push(made);
  return made;
}
