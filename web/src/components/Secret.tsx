import { Alert, Code, Group, Text } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { CopyButton } from "./CopyButton";

/** A password or token that is shown only once. */
export function Secret({ value, name, children }: { value: string; name: string; children?: ReactNode }) {
  return (
    <Alert color="yellow" icon={<IconKey aria-hidden />} title={`The ${name} is shown only now`}>
      <Group gap="xs" wrap="nowrap">
        <Code data-testid="secret" style={{ overflowWrap: "anywhere", fontSize: "0.875rem" }}>
          {value}
        </Code>
        <CopyButton value={value} name={name} />
      </Group>
      {children !== undefined && (
        <Text component="div" size="sm" mt="xs">
          {children}
        </Text>
      )}
    </Alert>
  );
}
