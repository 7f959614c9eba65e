import { useState } from "react";
import { queryClient } from "../../api/queries";
import { checkQuery } from "../../editor/queries";
import { type DraftPolicy, validateDraft } from "./draft";

/** Opens the review if the draft can be saved, otherwise returns the reason. */
export function useReview(mayBeEmpty: boolean) {
  const [opened, setOpened] = useState(false);
  const [validationError, setValidationError] = useState<string | null>(null);
  const open = async (draft: readonly DraftPolicy[]) => {
    const error = validateDraft(draft, mayBeEmpty) ?? (await firstInvalidPolicy(draft));
    setValidationError(error);
    setOpened(error === null);
  };
  return {
    opened,
    validationError,
    open,
    close: () => setOpened(false),
    clearError: () => setValidationError(null),
  };
}

async function firstInvalidPolicy(draft: readonly DraftPolicy[]): Promise<string | null> {
  const errors = await Promise.all(
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
  return errors.find((error) => error !== null) ?? null;
}
