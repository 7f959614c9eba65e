import { expect, it, vi } from "vitest";
import { newPolicy } from "./draft";
import { deleteRole, saveRole } from "./queries";

const draft = [newPolicy({ title: "All", expression: "true" })];

/** Makes the service respond with this body. Returns the `If-Match` headers of the requests. */
function respondWith(body: object | null): (string | null)[] {
  const sent: (string | null)[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (request) => {
    sent.push((request as Request).headers.get("if-match"));
    return body === null ? new Response(null, { status: 204 }) : Response.json(body);
  });
  return sent;
}

it("a role is saved over the edited version only, and a new one over none", async () => {
  const sent = respondWith({ name: "support", revision: 4, policies: [] });
  await saveRole("support", draft, '"3"');
  await saveRole("support", draft, null);
  expect(sent).toEqual(['"3"', null]);
});

it("a role is deleted in the shown version only", async () => {
  const sent = respondWith(null);
  await deleteRole("support", '"3"', async () => {});
  expect(sent).toEqual(['"3"']);
});
