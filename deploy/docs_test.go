package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/telemetry"
)

func operating(t *testing.T) string {
	t.Helper()
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
