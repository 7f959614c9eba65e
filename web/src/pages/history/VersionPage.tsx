import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconArrowBackUp } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type Api, hasStatus } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { Breadcrumb } from "../../components/Breadcrumb";
import { EmptyState } from "../../components/EmptyState";
import { ButtonLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Section } from "../../components/Section";
import { Time } from "../../components/Time";
import { rangeAround } from "../audit/filter";
import { actionText, authorOf, parseVersion } from "./changes";
import { DownloadButton } from "./DownloadButton";
import { ModelChanges } from "./ModelChanges";
import { PlanAndApply } from "./PlanAndApply";
import { fileOf, historyQuery, restoreModel, versionQuery } from "./queries";

const route = getRouteApi("/app/history/$version");

/** A version of the access model: its changes, and a button to restore it. */
export function VersionPage() {
  const { version: versionText } = route.useParams();
  const version = parseVersion(versionText);
  return (
    <AdminOnly>
      <Breadcrumb parent="/history" current={version === null ? "No version" : `Version ${version}`} />
      {version === null ? <VersionNotFound /> : <VersionView key={version} number={version} />}
    </AdminOnly>
  );
}

function VersionNotFound() {
  return (
    <EmptyState title="There is no such version">
      Versions are numbered from 1.
      <Group justify="center" mt="md">
        <ButtonLink to="/history" variant="default">
          All versions
        </ButtonLink>
      </Group>
    </EmptyState>
  );
}

function VersionView({ number }: { number: number }) {
  const query = useQuery(versionQuery(number));
  const { data, error } = query;
  const history = useInfiniteQuery(historyQuery);
  const newest = history.data?.pages[0]?.changes[0]?.version;
  if (data === undefined) {
    return hasStatus(error, 404) ? (
      <VersionNotFound />
    ) : (
      <QueryPlaceholder query={query} label="the version" height={240} />
    );
  }
  const isCurrent = newest === number;
  return (
    <>
      <PageTitle title={`Version ${number}`}>
        <DownloadButton version={number} label="Download this version" />
        {newest !== undefined && !isCurrent && <RestoreButton change={data} />}
      </PageTitle>
      <Stack gap="md">
        <Group gap="md" justify="space-between">
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            <SanitizedText text={actionText(data.action)} />
            {data.target != null && (
              <>
                {" "}
                (<SanitizedText text={data.target} maxLength={120} />)
              </>
            )}{" "}
            · <Time at={data.at} digits={0} /> · by <SanitizedText text={authorOf(data)} maxLength={80} />
            {isCurrent ? " · current" : ""}
          </Text>
          <Group gap="xs">
            <VersionLink version={number - 1} exists={number > 1} label="Older" />
            <VersionLink
              version={number + 1}
              exists={newest !== undefined && number < newest}
              label="Newer"
            />
            {data.by.username !== "" && (
              <ButtonLink
                size="xs"
                variant="default"
                to="/audit"
                search={{ ...rangeAround(data.at, 60), action: data.action }}
              >
                In the audit log
              </ButtonLink>
            )}
          </Group>
        </Group>
        <Section
          title="Changes in this version"
          description={number === 1 ? "This is the initial state: everything counts as added." : undefined}
        >
          <ModelChanges changes={data.changes} />
        </Section>
      </Stack>
    </>
  );
}

function VersionLink({ version, exists, label }: { version: number; exists: boolean; label: string }) {
  return (
    exists && (
      <ButtonLink size="xs" variant="default" to="/history/$version" params={{ version: String(version) }}>
        {label}
      </ButtonLink>
    )
  );
}

/** Asks for confirmation, and shows all changes of the restore. */
function RestoreButton({ change }: { change: Api["ModelAtChange"] }) {
  const [opened, { open, close }] = useDisclosure();
  const navigate = useNavigate();
  const { version: number } = change;
  return (
    <>
      <Button leftSection={<IconArrowBackUp size={16} aria-hidden />} onClick={open}>
        Restore this version
      </Button>
      <Modal opened={opened} onClose={close} title={`Restore version ${number}?`} size="xl">
        <Text size="sm" mb="md">
          The trace source, the marked fields, the roles and their policies are restored as a new version; no
          version is lost. <b>Role assignments are not restored:</b> a role that was deleted since then has no
          members until it is assigned to users again.
        </Text>
        <PlanAndApply
          file={fileOf(change)}
          label="Restore"
          testsMustPass={false}
          apply={(baseVersion) => restoreModel(number, baseVersion)}
          onApplied={(applied) => {
            close();
            notifications.show({
              color: "green",
              message: `Version ${number} was restored as version ${applied.version}.`,
            });
            void navigate({ to: "/history/$version", params: { version: String(applied.version) } });
          }}
          onClose={close}
        />
      </Modal>
    </>
  );
}
