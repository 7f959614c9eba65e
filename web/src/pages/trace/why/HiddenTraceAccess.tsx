import { Box } from "@mantine/core";
import { Section } from "../../../components/Section";
import { useTraceUrl } from "../useTraceUrl";
import { AccessChoice } from "./AccessChoice";

/** For administrators who cannot see a trace: which users can, and why. No request is sent before the administrator selects an
 * explanation, and the responses for a trace without read access contain only counts. */
export function HiddenTraceAccess({ id }: { id: string }) {
  const [url, changeUrl] = useTraceUrl();
  return (
    <Box maw={640} mx="auto">
      <Section
        title="Who sees it, and why"
        description="For administrators, whether or not they may read the trace. Each request is recorded in the audit log."
      >
        <AccessChoice
          id={id}
          why={url.why ?? "user"}
          user={url.user}
          onChange={(why, user) => changeUrl({ why, user })}
          onShowSpan={null}
          canReadTrace={false}
        />
      </Section>
    </Box>
  );
}
