package deploy

import (
	"context"
	"fmt"
	"io"
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
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
	o.Ended(ctx, holdfast.EndEvent{Kind: "rlock", Name: "orders:1", Reason: holdfast.ErrReleased,
		Err: holdfast.ErrUncertain})
	o.Renewed(holdfast.RenewalEvent{Kind: "rlock", Name: "orders:1", Lease: 30 * time.Second, Left: 5 * time.Second})
	o.Sent(holdfast.ScriptEvent{Script: "acquire", Took: time.Millisecond, Repeats: 1, Err: io.EOF})
	o.Subscribed(holdfast.SubscriptionEvent{Server: "s"})
	o.Dropped(2)
	o.SelfBlocked(holdfast.SelfBlockEvent{Kind: "rlock", Name: "orders:1"})
	o.Deadlocked(holdfast.DeadlockEvent{Kind: "rlock", Name: "orders:1"})
	same()
}

func TestMain(m *testing.M) { redistest.Main(m) }
