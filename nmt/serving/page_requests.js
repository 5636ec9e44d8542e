// Requests to the service. A proxy in front of it may answer in its place, and then not in JSON.

const NO_ANSWER = "the service does not answer";

// Returns the response to a POST request. Throws an error that says why there is none, or why it is not
// ok; its `status` is 0 without an answer.
export async function post(path, options) {
  const fail = (message, status) => Object.assign(new Error(message), { status });
  const response = await fetch(path, { method: "POST", ...options }).catch(() => {
    throw fail(NO_ANSWER, 0);
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw fail(answer?.error ?? `the server answered ${response.status}`, response.status);
}

// Returns an error as an answer: {error, status}. One without a status is of an answer that broke off.
export function describeError({ message, status }) {
  return status ? { error: message, status } : { error: NO_ANSWER, status: 0 };
}

// Returns the answer to JSON; without success {error, status}, where status is 0 without an answer.
export async function postJson(path, content, signal) {
  try {
    const headers = { "Content-Type": "application/json" };
    return await (await post(path, { headers, body: JSON.stringify(content), signal })).json();
  } catch (error) {
    return describeError(error);
  }
}
