package holdfastcertmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	holdfastcertmagic "github.com/holdfast-go/holdfast/adapters/certmagic"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Certificates stay in files that the machines share; the locks are in Redis.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	dir, err := os.MkdirTemp("", "certificates-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	storage := holdfastcertmagic.New(&certmagic.FileStorage{Path: dir}, func(name string) holdfast.Locker {
		return rlock.New(client, "certmagic:"+name)
	})
	// certmagic.Default.Storage = storage

	fmt.Println(storage.Lock(ctx, "issue_cert_example.com")) // as certmagic does before it obtains a certificate
	fmt.Println(storage.TryLock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
