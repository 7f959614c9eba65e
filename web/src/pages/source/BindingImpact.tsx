import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../api/client";
import { MessageList } from "../../components/MessageList";
import { PlanImpact } from "../history/PlanView";
import { bindingPlanQuery, PLAN_SECONDS } from "../history/queries";
import { CountResult } from "../roles/CountResult";

/** On request, the traces that users gain and lose through another binding of the same table. Each count is audited. */
export function BindingImpact({ binding }: { binding: Api["Binding"] }) {
  const [counted, setCounted] = useState<Api["Binding"] | null>(null);
  const isCounted = counted !== null && JSON.stringify(counted) === JSON.stringify(binding);
  return isCounted ? (
    <CountedImpact binding={binding} />
  ) : (
    <Group>
      <Button variant="default" onClick={() => setCounted(binding)}>
        Count gained and lost traces
      </Button>
    </Group>
  );
}

function CountedImpact({ binding }: { binding: Api["Binding"] }) {
  const options = bindingPlanQuery(binding);
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
