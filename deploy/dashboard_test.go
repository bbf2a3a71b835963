package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// step is the time between two scrapes, as Prometheus would have stored them. The run takes less, so
// that the test does.
const step = 30 * time.Second

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scrape stores what the registry has now, a step after the last time.
func (r *run) scrape(t *testing.T) {
	r.scrapeAt(t, start.Add(time.Duration(r.scrapes)*step))
	r.scrapes++
}

func (r *run) scrapeAt(t *testing.T, at time.Time) {
	families, err := r.prom.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.store(f, m, at)
		}
	}
}

// store adds the lines that a metric has in the text that Prometheus scrapes.
func (r *run) store(f *dto.MetricFamily, m *dto.Metric, at time.Time) {
	add := func(suffix string, v float64, more ...string) {
		l := map[string]string{"__name__": f.GetName() + suffix, "job": "shop", "instance": "shop:8080"}
		for _, pair := range m.GetLabel() {
			l[pair.GetName()] = pair.GetValue()
		}
		for i := 0; i < len(more); i += 2 {
			l[more[i]] = more[i+1]
		}
		r.memory.add(labels.FromMap(l), at, v)
	}
	h := m.GetHistogram()
	if h == nil {
		add("", m.GetCounter().GetValue()+m.GetGauge().GetValue())
		return
	}
	for _, b := range h.GetBucket() {
		add("_bucket", float64(b.GetCumulativeCount()), "le", fmt.Sprint(b.GetUpperBound()))
	}
	add("_bucket", float64(h.GetSampleCount()), "le", "+Inf")
	add("_count", float64(h.GetSampleCount()))
	add("_sum", h.GetSampleSum())
}

// known are the names of metrics, each with its labels, that have been scraped.
func (r *run) known() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, l := range r.memory.names {
		name := l.Get("__name__")
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		l.Range(func(l labels.Label) { all[name][l.Name] = true })
	}
	return all
}

// unknown returns what an expression names that has not been scraped: metrics, labels that it selects
// by, and labels that it groups by.
func unknown(expr parser.Expr, known map[string]map[string]bool) (bad []string) {
	has := map[string]bool{}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			if known[s.Name] == nil {
				bad = append(bad, s.Name)
			}
			maps.Copy(has, known[s.Name])
			for _, m := range s.LabelMatchers {
				if !known[s.Name][m.Name] {
					bad = append(bad, s.Name+"{"+m.Name+"}")
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !has[l] {
					bad = append(bad, "by "+l)
				}
			}
		}
		return nil
	})
	return bad
}

// panel is one of the dashboard.
type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	GridPos struct{ X, Y, W, H int } `json:"gridPos"`
}

type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// asGrafana puts values where Grafana does; "All" is what the variables have at first.
func asGrafana(expr string) string {
	return strings.NewReplacer("$__rate_interval", "2m", "$job", ".*", "$kind", ".*", "$class", ".*").Replace(expr)
}

func TestARealRun(t *testing.T) {
	r := live(t)
	t.Run("dashboard", func(t *testing.T) { runDashboard(t, r) })
	t.Run("both exporters", func(t *testing.T) { sayTheSame(t, r) })
}

func runDashboard(t *testing.T, r *run) {
	d := readDashboard(t)
	known, engine := r.known(), newEngine(t)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			text := asGrafana(target.Expr)
			require.NotContains(t, text, "$", p.Title)
			expr, err := syntax.ParseExpr(text)
			require.NoError(t, err, p.Title)
			require.Empty(t, unknown(expr, known), p.Title)
			result := instant(t, engine, r.memory, text, start.Add(time.Duration(r.scrapes-1)*step))
			require.NotEmpty(t, result, "%s: %s", p.Title, text)
			for _, legend := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.Legend, -1) {
				grouped := slices.ContainsFunc(result, func(s promql.Sample) bool { return s.Metric.Has(legend[1]) })
				require.True(t, grouped, "%s: the legend names %s, which the result does not have", p.Title, legend[1])
			}
		}
	}
	require.Greater(t, queries, 25)
	rules := map[string]rule{}
	for _, a := range alerts(t) {
		rules[a.Alert] = a
		expr, err := syntax.ParseExpr(a.Expr)
		require.NoError(t, err, a.Alert)
		require.Empty(t, unknown(expr, known), a.Alert)
	}
	// What the queries say is what happened.
	end := start.Add(time.Duration(r.scrapes-1) * step)
	lost := instant(t, engine, r.memory, asGrafana(`sum by (reason) (increase(holdfast_lock_losses_total{job=~"$job"}[2m])) > 0`), end)
	require.Len(t, lost, 1)
	require.Equal(t, "gone", lost[0].Metric.Get("reason"))
	held := instant(t, engine, r.memory, `sum(holdfast_lock_held)`, start.Add(step))
	require.Equal(t, 2.0, held[0].F)
	fired := instant(t, engine, r.memory, rules["HoldfastLockLost"].Expr, end)
	require.Len(t, fired, 1, "the alert of a loss, on a real loss")
}

// The control: what is not there is found.
func TestUnknownIsFound(t *testing.T) {
	known := map[string]map[string]bool{"a": {"__name__": true, "x": true}}
	for text, want := range map[string][]string{
		`a{x="1"}`: nil, `sum by (x) (rate(a[5m]))`: nil, `b`: {"b", "b{__name__}"}, `a{y="1"}`: {"a{y}"},
		`sum by (y) (a)`: {"by y"}, `a / b`: {"b", "b{__name__}"},
	} {
		expr, err := syntax.ParseExpr(text)
		require.NoError(t, err)
		require.Equal(t, want, unknown(expr, known), text)
	}
}

// TestDashboardIsWellFormed: what Grafana needs and cannot be tried here.
func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	require.Equal(t, "holdfast", d.UID)
	ids := map[int]bool{}
	for i, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, q := range d.Panels[:i] {
			apart := p.GridPos.X >= q.GridPos.X+q.GridPos.W || q.GridPos.X >= p.GridPos.X+p.GridPos.W ||
				p.GridPos.Y >= q.GridPos.Y+q.GridPos.H || q.GridPos.Y >= p.GridPos.Y+p.GridPos.H
			require.True(t, apart, "%s lies on %s", p.Title, q.Title)
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Name != "DS_PROMETHEUS" {
			require.Contains(t, fmt.Sprint(v.Query), "label_values(holdfast_lock_held")
		}
	}
	require.Equal(t, []string{"DS_PROMETHEUS", "job", "kind", "class"}, names)
	for _, used := range regexp.MustCompile(`"uid": "(\$\{\w+\})"`).FindAllStringSubmatch(string(text), -1) {
		require.Equal(t, "${DS_PROMETHEUS}", used[1])
	}
}
