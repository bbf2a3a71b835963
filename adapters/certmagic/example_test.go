package holdfastcertmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	holdfastcertmagic "github.com/holdfast-go/holdfast/adapters/certmagic"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Certificates stay in files that the machines share; the locks are in Redis.
func Example() {
	ctx := context.Background()
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()
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
