// The head of a dashboard: its title, its variables, its links and its time range.

import { InlineLabel, ToolbarButton, useTheme2 } from '@grafana/ui';

import { State } from './state';

const ROW = { display: 'flex', flexWrap: 'wrap', gap: 8, alignItems: 'center' } as const;

export function Controls({ state }: { state: State }) {
  const theme = useTheme2();
  return (
    <div style={{ marginBottom: 16 }}>
      <div style={{ ...theme.typography.h5, marginBottom: 12 }}>{state.dashboard.title}</div>
      <div style={{ ...ROW, justifyContent: 'space-between' }}>
        <div style={ROW}>
          {state.variables.map(({ label, value }) => (
            <div key={label} style={{ display: 'flex' }}>
              <InlineLabel width="auto" style={{ marginRight: 0 }}>{label}</InlineLabel>
              <ToolbarButton variant="canvas" isOpen={false}>{value}</ToolbarButton>
            </div>
          ))}
        </div>
        <div style={ROW}>
          {state.dashboard.links.map((link: any) => (
            <ToolbarButton key={link.title} variant="canvas" icon="external-link-alt">{link.title}</ToolbarButton>
          ))}
          <ToolbarButton variant="canvas" icon="clock-nine" isOpen={false}>{state.timeRange}</ToolbarButton>
        </div>
      </div>
    </div>
  );
}
