// Package event has the words of inbound work: what a service delivered, what
// it means, and what a trigger wants of it. Modules declare with them what they
// can be told; everything here is pure.
//
// A delivery is verified before anything of it is read, on its raw bytes. What
// it is parsed into is foreign: nothing of it is a URL to follow or an order.
package event
