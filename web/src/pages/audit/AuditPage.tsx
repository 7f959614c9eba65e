import { PageTitle } from "../../components/PageTitle";

export function AuditPage() {
  return <PageTitle title="AuditPage" />;
}
