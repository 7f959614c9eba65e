import { Group, Title } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useId } from "react";
import type { Api } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { IconButton } from "../../../components/IconButton";
import { AccessChoice } from "./AccessChoice";
import { AccessExplanation } from "./AccessExplanation";
import type { ExplanationSubject } from "./explanation";
import { WHY_PANEL_ID } from "./WhyBadge";
import classes from "./why.module.css";

/** Explains why the trace is visible to the user and, for administrators, to others. */
export function WhyPanel({
  id,
  why,
  user,
  onChange,
  onClose,
  onShowSpan,
}: {
  id: string;
  why: ExplanationSubject;
  user: string | undefined;
  onChange: (why: ExplanationSubject, user?: string) => void;
  onClose: () => void;
  /** Shows a span by its id. Returns whether the span is loaded. */
  onShowSpan: (span: Api["SpanMention"]) => boolean;
}) {
  const me = useMe();
  const title = useId();
  return (
    <section id={WHY_PANEL_ID} aria-labelledby={title} className={classes.panel}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="xs" mb="xs">
        <Title order={2} size="h3" id={title}>
          {me.is_admin && why !== "own" ? "Who sees this, and why" : "Why do I see this?"}
        </Title>
        <IconButton tooltip="Close (Esc)" label="Close the explanation" onClick={onClose}>
          <IconX size={18} aria-hidden />
        </IconButton>
      </Group>
      {me.is_admin ? (
        <AccessChoice
          id={id}
          why={why}
          user={user}
          onChange={onChange}
          onShowSpan={onShowSpan}
          canReadTrace
        />
      ) : (
        <AccessExplanation id={id} user={null} onShowSpan={onShowSpan} />
      )}
    </section>
  );
}
