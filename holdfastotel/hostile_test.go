package holdfastotel_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
)

// TestHostileNames: a name, an owner and an error of somebody's are printable in spans, their events and statuses, in log
// lines and in labels. An exporter drops all that it sends at once if one text of it is no UTF-8.
func TestHostileNames(t *testing.T) {
	tel, _, exporter := traced(t, true)
	metrics, reader := metered(t, holdfastotel.Options{Class: func(name string) string { return name }})
	var log bytes.Buffer
	logged := holdfastotel.LogLosses(slog.New(slog.NewJSONHandler(&log, nil)))
	for _, text := range hostile.Texts {
		err := errLost(errors.New(text))
		play(metrics.Observer(), "rlock", text)
		logged.Ended(context.Background(), holdfast.EndEvent{Name: text, Owner: text, Reason: err})
		o := tel.Observer()
		ctx := o.Waiting(t.Context(), holdfast.WaitEvent{Kind: "rlock", Name: text})
		o.Granted(ctx, holdfast.GrantEvent{Kind: "rlock", Name: text, Owner: text})
		o.Ended(ctx, holdfast.EndEvent{Kind: "rlock", Name: text, Owner: text, Reason: err, Err: err})
		o.Refused(o.Waiting(t.Context(), holdfast.WaitEvent{Kind: "rlock", Name: text}), holdfast.RefusalEvent{Kind: "rlock", Name: text, Err: err})
	}
	spans := exporter.GetSpans()
	require.Len(t, spans, 3*len(hostile.Texts))
	for _, span := range spans {
		hostile.Check(t, "a status", span.Status.Description)
		all := span.Attributes
		for _, event := range span.Events {
			all = append(all, event.Attributes...)
		}
		for _, a := range all {
			if a.Value.Type() == attribute.STRING {
				hostile.Check(t, string(a.Key), a.Value.AsString())
			}
		}
	}
	for series := range collect(t, reader) {
		hostile.Check(t, "a series", series)
	}
	hostile.Check(t, "the log", log.String())
}
