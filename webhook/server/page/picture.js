// The picture of a gang, as the server draws it.

const DRAWN = new Set(["svg", "g", "rect", "path", "text"]);
const SMALLEST = 0.75;
const SVG = "http://www.w3.org/2000/svg";

/** Returns a copy of a drawing that has only shapes and text: no script, link or style could come with it. */
function copied(node) {
  if (!DRAWN.has(node.localName)) return document.createTextNode("");
  const made = document.createElementNS(SVG, node.localName);
  for (const { name, value } of node.attributes) {
    if (/^(class|d|x|y|rx|width|height|viewBox|fill|stroke[a-z-]*|font-[a-z]+|role|aria-label)$/.test(name)) {
      made.setAttribute(name, value);
    }
  }
  if (node.localName === "text") made.textContent = visible(node.textContent);
  else made.append(...Array.from(node.children, copied));
  return made;
}

/** Returns the picture of a workload, and the same as text and as Mermaid. */
function pictureOf({ pictures }, name) {
  const drawing = new DOMParser().parseFromString(pictures.svg, "image/svg+xml").documentElement;
  const label = `Picture of ${visible(name)}; the same follows as text`;
  const figure = element("figure", { tabindex: "0", role: "group", "aria-label": label });
  const svg = copied(drawing);
  // It shrinks with the page as long as its text can be read.
  svg.style.minWidth = `${Number(svg.getAttribute("width")) * SMALLEST}px`;
  figure.append(svg);
  const whole = element("button", { type: "button", click: () => figure.requestFullscreen() }, "Full screen");
  const save = element("button", { type: "button", click: () => saved(pictures.svg) }, "Save as SVG");
  return [
    element("h4", {}, "Gangs"),
    figure,
    element("p", {}, whole, " ", save),
    element("details", {}, element("summary", {}, "As text"), element("pre", { tabindex: "0" }, ...lined(pictures.text))),
    element("details", {}, element("summary", {}, "As Mermaid"),
      element("pre", { tabindex: "0" }, ...lined(pictures.mermaid.trimEnd().split("\n")))),
  ];
}

function lined(lines) {
  return lines.flatMap((line) => [line, element("br")]);
}

function saved(svg) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  element("a", { href: address, download: "gangs.svg" }).click();
  URL.revokeObjectURL(address);
}
