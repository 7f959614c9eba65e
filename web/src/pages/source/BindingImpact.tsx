import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../api/client";
import { MessageList } from "../../components/MessageList";
import { PlanImpact } from "../history/PlanView";
import { bindingPlanQuery, PLAN_SECONDS } from "../history/queries";
import { CountResult } from "../roles/CountResult";

/** Counts on request the traces that users gain and lose when the binding of the same table changes. Each count is written to
 * the audit log, so that a further change of the binding needs a new request. */
export function BindingImpact({ binding, etag }: { binding: Api["Binding"]; etag: string | null }) {
  const [requested, setRequested] = useState<string | null>(null);
  const current = JSON.stringify([binding, etag]);
  if (requested !== null && requested !== current) {
    setRequested(null);
  }
  return requested === current ? (
    <CountedImpact binding={binding} etag={etag} />
  ) : (
    <Group>
      <Button variant="default" onClick={() => setRequested(current)}>
        Count gained and lost traces
      </Button>
    </Group>
  );
}

function CountedImpact({ binding, etag }: { binding: Api["Binding"]; etag: string | null }) {
  const options = bindingPlanQuery(binding, etag);
  return (
    <CountResult
      query={useQuery(options)}
      queryKey={options.queryKey}
      label="Counting the traces of the last 24 hours with both bindings"
      seconds={PLAN_SECONDS}
      errorTitle="The traces were not counted"
      stoppedText="Stopped: gained and lost traces are not known."
    >
      {({ impact, notes }) => (
        <>
          <PlanImpact impact={impact} />
          {notes.length > 0 && <MessageList messages={notes} />}
        </>
      )}
    </CountResult>
  );
}
