import { Text } from "@mantine/core";
import type { Api } from "../../api/client";
import { PageLink } from "../../components/links";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";

/** Who answers for a service account, and the role that the account depends on. */
export function ServiceOwner({ service }: { service: Api["ServiceInfo"] }) {
  return (
    <Text span size="sm" style={{ overflowWrap: "anywhere" }}>
      {service.owner === null ? (
        <Secondary>deleted</Secondary>
      ) : (
        <PageLink to="/users/$username" params={{ username: service.owner }} inherit>
          <SanitizedText text={service.owner} />
        </PageLink>
      )}
      {service.owner_role !== null && (
        <Secondary>
          {" "}
          while in <SanitizedText text={service.owner_role} />
        </Secondary>
      )}
    </Text>
  );
}
