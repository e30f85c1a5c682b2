// Shares manifests in the fragment of the address, which browsers do not send to a server.

// Longer addresses do not survive chats and mail.
const LONGEST_FRAGMENT = 100_000;
// A short fragment may contain a very long text.
const LONGEST_TEXT = 8 * 1024 * 1024;

/** Returns a fragment with the text and the choices, or null if it would be too long. */
async function fragmentOf(text, choices) {
  const packed = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  if (bytes.length > LONGEST_FRAGMENT) return null;
  const letters = Array.from(bytes, (one) => String.fromCharCode(one)).join("");
  const words = btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `#${new URLSearchParams({ ...choices, manifests: words })}`;
}

/** Returns the text and the choices in a fragment, or null if it has none. Throws if it is damaged. */
async function sharedIn(fragment) {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const words = values.get("manifests");
  if (words === null) return null;
  const letters = atob(words.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(letters, (one) => one.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LONGEST_TEXT) throw new Error("the shared text is too long");
    parts.push(value);
  }
  return { text: await new Blob(parts).text(), ...Object.fromEntries(values) };
}
