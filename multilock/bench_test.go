package multilock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
)

// BenchmarkPair takes some locks of one client and gives them back, as one and one after the other.
func BenchmarkPair(b *testing.B) {
	for _, n := range []string{"ab", "abcdefgh", "abcdefghijklmnopqrstuvwxyz012345"} {
		c, _ := shared(b)
		locks := plain(c, names(b, n)...)
		all := multilock.New(locks...)
		b.Run(fmt.Sprintf("as one/%d", len(n)), func(b *testing.B) {
			for b.Loop() {
				h, err := all.Lock(context.Background())
				if err == nil {
					err = h.Unlock(context.Background())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("one by one/%d", len(n)), func(b *testing.B) {
			for b.Loop() {
				ctx := context.Background()
				var holds []*holdfast.Hold
				for _, l := range locks {
					h, err := l.Lock(ctx)
					if err != nil {
						b.Fatal(err)
					}
					holds, ctx = append(holds, h), h.Context()
				}
				for _, h := range holds {
					if err := h.Unlock(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
