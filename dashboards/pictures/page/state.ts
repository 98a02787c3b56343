// What Python puts into the page: a dashboard, and what Prometheus answered to each of its panels.

import { DataFrameDTO } from '@grafana/data';

export interface State {
  dashboard: any;
  from: number;
  to: number;
  timeRange: string; // in words
  variables: Array<{ label: string; value: string }>;
  frames: Record<string, DataFrameDTO[]>; // by the id of the panel
  known: { transformations: string[]; properties: string[] };
}
