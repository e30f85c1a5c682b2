// Elements are made of text only: nothing that comes from a manifest is read as HTML.

// Controls, direction marks and other characters that a reader does not see.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Returns the text with hidden characters written as escapes. */
function visible(text) {
  return String(text).replace(HIDDEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

/** Returns an element. Strings among the children become text; a function as attribute is a listener. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined).map(shown));
  return made;
}

function shown(child) {
  return child instanceof Node ? child : document.createTextNode(visible(child));
}

/** Returns `count` and the noun, with an s unless it is one. */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
