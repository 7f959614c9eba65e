import { useState } from "react";
import { queryClient } from "../../api/queries";
import { checkQuery } from "../../editor/queries";
import { type DraftPolicy, missing } from "./draft";

/** Opens the review if the draft can be saved, otherwise returns the reason. */
export function useReview(mayBeEmpty: boolean) {
  const [opened, setOpened] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const open = async (draft: readonly DraftPolicy[]) => {
    const found = missing(draft, mayBeEmpty) ?? (await firstInvalid(draft));
    setProblem(found);
    setOpened(found === null);
  };
  return { opened, problem, open, close: () => setOpened(false), forget: () => setProblem(null) };
}

async function firstInvalid(draft: readonly DraftPolicy[]): Promise<string | null> {
  const checked = await Promise.all(
    draft.map(async ({ expression }, index) => {
      try {
        const { valid } = await queryClient.fetchQuery(checkQuery(expression));
        return valid ? null : `Policy ${index + 1} has errors. They are listed below its expression.`;
      } catch {
        // The save validates again and reports any error.
        return null;
      }
    }),
  );
  return checked.find((one) => one !== null) ?? null;
}
