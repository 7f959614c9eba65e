import type { DraftPolicy } from "./draft";
export function TryIt(_: { name: string; draft: readonly DraftPolicy[]; members: readonly string[] }) {
  return null;
}
