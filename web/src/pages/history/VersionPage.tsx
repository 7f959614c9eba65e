import { Anchor, Breadcrumbs, Button, Group, Modal, Skeleton, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconArrowBackUp } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type Api, ApiError } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { Section } from "../../components/Section";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { around } from "../audit/filter";
import { actionText, authorOf, versionOf } from "./changes";
import { Download } from "./Download";
import { ModelChanges } from "./ModelChanges";
import { PlanAndApply } from "./PlanAndApply";
import { fileOf, historyQuery, restoreModel, versionQuery } from "./queries";

const route = getRouteApi("/app/history/$version");

/** A version of the access model: its changes, and a button to restore it. */
export function ChangePage() {
  const { version: text } = route.useParams();
  const version = versionOf(text);
  return (
    <AdminOnly>
      <Breadcrumbs mb="xs">
        <Anchor component={Link} to="/history">
          Model history
        </Anchor>
        <Text span>{version === null ? "No version" : `Version ${version}`}</Text>
      </Breadcrumbs>
      {version === null ? <NoVersion /> : <OneVersion key={version} number={version} />}
    </AdminOnly>
  );
}

function NoVersion() {
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

function OneVersion({ number }: { number: number }) {
  const { data, error, refetch } = useQuery(versionQuery(number));
  const history = useInfiniteQuery(historyQuery);
  const newest = history.data?.pages[0]?.changes[0]?.version;
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={240} aria-label="Loading the version" />
    ) : error instanceof ApiError && error.status === 404 ? (
      <NoVersion />
    ) : (
      <ErrorNotice error={error} onRetry={() => void refetch()} />
    );
  }
  const current = newest === number;
  return (
    <>
      <PageTitle title={`Version ${number}`}>
        <Download version={number} label="Download this version" />
        {newest !== undefined && !current && <Restore change={data} />}
      </PageTitle>
      <Stack gap="md">
        <Group gap="md" justify="space-between">
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            <Visible text={actionText(data.action)} />
            {data.target != null && (
              <>
                {" "}
                (<Visible text={data.target} most={120} />)
              </>
            )}{" "}
            · <Time at={data.at} digits={0} /> · by <Visible text={authorOf(data)} most={80} />
            {current ? " · current" : ""}
          </Text>
          <Group gap="xs">
            <Step to={number - 1} shown={number > 1} label="Older" />
            <Step to={number + 1} shown={newest !== undefined && number < newest} label="Newer" />
            {data.by.username !== "" && (
              <ButtonLink
                size="xs"
                variant="default"
                to="/audit"
                search={{ ...around(data.at, 60), action: data.action }}
              >
                In the audit log
              </ButtonLink>
            )}
          </Group>
        </Group>
        <Section
          title="Changes in this version"
          about={number === 1 ? "This is the initial state: everything counts as added." : undefined}
        >
          <ModelChanges changes={data.changes} />
        </Section>
      </Stack>
    </>
  );
}

function Step({ to, shown, label }: { to: number; shown: boolean; label: string }) {
  return (
    shown && (
      <ButtonLink size="xs" variant="default" to="/history/$version" params={{ version: String(to) }}>
        {label}
      </ButtonLink>
    )
  );
}

/** Asks for confirmation, and shows all changes of the restore. */
function Restore({ change }: { change: Api["ModelAtChange"] }) {
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
          apply={(over) => restoreModel(number, over)}
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
