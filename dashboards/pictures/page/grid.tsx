// Grafana's grid: 24 columns, or one on a narrow screen.

import { GrafanaTheme2 } from '@grafana/data';
import { Icon, PanelChrome } from '@grafana/ui';

import { Panel } from './panel';
import { State } from './state';

const COLUMNS = 24;
const ROW = 30;
const GAP = 8;
const NARROW = 768;
const PADDED = new Set(['table', 'text', 'timeseries']);

interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
}

export function Grid({ state, theme, width }: { state: State; theme: GrafanaTheme2; width: number }) {
  const panels = state.dashboard.panels;
  const places = width < NARROW ? inOneColumn(panels, width) : inColumns(panels, width);
  return (
    <div style={{ position: 'relative', height: Math.max(...places.map(({ top, height }) => top + height)) }}>
      {panels.map((panel: any, index: number) => (
        <div key={panel.id} style={{ position: 'absolute', ...places[index] }}>
          {panel.type === 'row' ? (
            <Heading panel={panel} theme={theme} />
          ) : (
            <PanelChrome title={panel.title} description={panel.description} titleItems={panel.links && <Links />}
              width={places[index].width} height={places[index].height} padding={PADDED.has(panel.type) ? 'md' : 'none'}>
              {(innerWidth, innerHeight) => (
                <Panel panel={panel} state={state} theme={theme} width={innerWidth} height={innerHeight} />
              )}
            </PanelChrome>
          )}
        </div>
      ))}
    </div>
  );
}

function Links() {
  return <PanelChrome.TitleItem><Icon name="external-link-alt" /></PanelChrome.TitleItem>;
}

function Heading({ panel, theme }: { panel: any; theme: GrafanaTheme2 }) {
  return (
    <div style={{ ...theme.typography.h5, display: 'flex', alignItems: 'center', gap: 4, height: ROW }}>
      <Icon name={panel.collapsed ? 'angle-right' : 'angle-down'} />
      {panel.title}
    </div>
  );
}

const heightOf = (rows: number) => rows * ROW + (rows - 1) * GAP;

function inColumns(panels: any[], width: number): Place[] {
  const column = (width - (COLUMNS - 1) * GAP) / COLUMNS;
  return panels.map(({ gridPos: { x, y, w, h } }) => ({
    left: x * (column + GAP),
    top: y * (ROW + GAP),
    width: w * column + (w - 1) * GAP,
    height: heightOf(h),
  }));
}

function inOneColumn(panels: any[], width: number): Place[] {
  let top = 0;
  return panels.map(({ gridPos: { h } }) => {
    const place = { left: 0, top, width, height: heightOf(h) };
    top += place.height + GAP;
    return place;
  });
}
