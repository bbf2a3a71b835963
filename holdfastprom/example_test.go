package holdfastprom_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// The part of a name before the colon is the label class.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	registry := prometheus.NewRegistry()

	metrics := holdfastprom.New(&holdfastprom.Options{
		Class: func(name string) string { class, _, _ := strings.Cut(name, ":"); return class },
	})
	registry.MustRegister(metrics)
	client, err := holdfast.New(rdb, &holdfast.Options{Observer: metrics.Observer()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	hold, err := rlock.New(client, "invoices:7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	families, _ := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "holdfast_lock_held" && m.GetGauge().GetValue() > 0 {
				class, kind := m.GetLabel()[0], m.GetLabel()[1]
				fmt.Println(class.GetName(), class.GetValue(), kind.GetName(), kind.GetValue(), m.GetGauge().GetValue())
			}
		}
	}
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// class invoices kind rlock 1
	// <nil>
}
