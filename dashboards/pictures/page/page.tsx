// The whole page. Python calls window.draw with a state, and waits until no panel is marked as waiting.

import { createTheme, ThemeContext } from '@grafana/data';
import { GlobalStyles } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { Controls } from './controls';
import { prepare } from './data';
import { Grid } from './grid';
import { State } from './state';

declare global {
  interface Window {
    draw: (state: State) => void;
  }
}

window.draw = (state) => {
  prepare(state.known);
  const theme = createTheme({ colors: { mode: state.dashboard.style } });
  createRoot(document.getElementById('dashboard')!).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ padding: 16, background: theme.colors.background.canvas, minHeight: '100vh' }}>
        <Controls state={state} />
        <Grid state={state} theme={theme} width={window.innerWidth - 32} />
      </div>
    </ThemeContext.Provider>
  );
};
