// Asks the server: POST /check and POST /capabilities.

/** An answer that has no report: what the server said instead. */
class Refused extends Error {
  constructor(status, said) {
    super(said);
    this.status = status;
  }
}

/** Returns the JSON of an answer. Throws `Refused` if it has none, and what fetch throws if there is no answer. */
async function ask(path, parameters, text, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const answer = await fetch(`${path}?${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/yaml" },
    body: text,
    signal,
  });
  const body = await answer.text();
  // 422 has a report with refusals.
  if (answer.status === 200 || answer.status === 422) return JSON.parse(body);
  throw new Refused(answer.status, wordsOf(body, answer.status));
}

function wordsOf(body, status) {
  try {
    return JSON.parse(body).error;
  } catch {
    return body.trim() || `the server answered ${status}`;
  }
}

/** Returns the names of the schedulers of a configuration. */
async function schedulersOf(configuration) {
  const answer = await fetch(`capabilities?${new URLSearchParams({ configuration })}`);
  if (!answer.ok) throw new Refused(answer.status, await answer.text());
  return (await answer.json()).schedulers.map((one) => one.scheduler);
}
