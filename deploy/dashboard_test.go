package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// step is the time between two scrapes, as Prometheus would have stored them. The run takes less, so that the test does.
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

// unknown returns the metrics and labels that an expression names, selects by or groups by and that have not been scraped.
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

func operating(t *testing.T) string {
	text, err := os.ReadFile("../docs/operating.md")
	require.NoError(t, err)
	return string(text)
}

// TestAlertsAreDocumented: each has a heading that says what it means and what to do.
func TestAlertsAreDocumented(t *testing.T) {
	var headings, names []string
	for _, m := range regexp.MustCompile("(?m)^### `(Holdfast\\w+)`$").FindAllStringSubmatch(operating(t), -1) {
		headings = append(headings, m[1])
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
	}
	require.ElementsMatch(t, names, headings)
}

// TestMetricsAreDocumented: the table has each metric, with its labels and their values.
func TestMetricsAreDocumented(t *testing.T) {
	var documented, exported []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)` \\| ([^|]*)\\|").FindAllStringSubmatch(operating(t), -1) {
		documented = append(documented, m[1]+" "+strings.TrimSpace(m[2]))
	}
	descriptions := make(chan *prometheus.Desc, 100)
	holdfastprom.New(nil).Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		m := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*)\}\}`).FindStringSubmatch(d.String())
		require.NotNil(t, m, d)
		exported = append(exported, strings.TrimSpace(m[1]+" "+strings.ReplaceAll(m[2], ",", ", ")))
	}
	for i := range documented {
		documented[i] = strings.TrimSpace(documented[i])
	}
	require.ElementsMatch(t, exported, documented)
	for _, v := range slices.Concat(telemetry.Outcomes, telemetry.Reasons, telemetry.Renewals, telemetry.Operations, telemetry.Shapes, telemetry.Failures) {
		require.Contains(t, operating(t), "`"+v+"`")
	}
}

// numbers are the metrics of a registry by name, type and labels. Of a histogram they are how many were
// counted and its buckets. Ages are left out: they grow between two scrapes.
func numbers(t *testing.T, registry *prometheus.Registry) map[string]string {
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "holdfast_") {
			continue
		}
		require.NotEmpty(t, f.GetHelp(), f.GetName())
		for _, m := range f.GetMetric() {
			key := fmt.Sprint(f.GetName(), " ", f.GetType(), " ", labelsOf(m))
			if strings.HasSuffix(f.GetName(), "_age_seconds") {
				all[key] = "an age"
				continue
			}
			all[key] = fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				all[key] = fmt.Sprint(h.GetSampleCount())
				for _, b := range h.GetBucket() {
					all[key] += fmt.Sprint(" ", b.GetUpperBound(), ":", b.GetCumulativeCount())
				}
			}
		}
	}
	return all
}

// labelsOf leaves out empty ones, which Prometheus does, too.
func labelsOf(m *dto.Metric) string {
	var list []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			list = append(list, l.GetName()+"="+l.GetValue())
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// sayTheSame: what OpenTelemetry's exporter makes of holdfastotel has the names, the labels and, after
// the same run, the values of holdfastprom. So alerts and dashboard are for both.
func sayTheSame(t *testing.T, r *run) {
	same := func() {
		equal := func() bool { return reflect.DeepEqual(numbers(t, r.prom), numbers(t, r.otel)) }
		deadline := time.Now().Add(10 * time.Second) // events may come between the one and the other
		for !equal() && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		prom := numbers(t, r.prom)
		require.Greater(t, len(prom), 100)
		require.Equal(t, prom, numbers(t, r.otel))
	}
	same()
	ctx, o := context.Background(), r.observer // which is told of what does not happen in a short run
	o.Ended(ctx, event.End{Kind: "rlock", Name: "orders:1", Reason: holdfast.ErrReleased,
		Err: holdfast.ErrUncertain})
	o.Renewed(event.Renewal{Kind: "rlock", Name: "orders:1", Lease: 30 * time.Second, Left: 5 * time.Second})
	o.Sent(event.Script{Script: "acquire", Took: time.Millisecond, Repeats: 1, Err: io.EOF})
	o.Subscribed(event.Subscription{Server: "s"})
	o.Dropped(2)
	o.SelfBlocked(event.SelfBlock{Kind: "rlock", Name: "orders:1"})
	o.Deadlocked(event.Deadlock{Kind: "rlock", Name: "orders:1"})
	same()
}

func TestMain(m *testing.M) { redistest.Main(m) }
