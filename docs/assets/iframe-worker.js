/* Opened from disk, a page may not start a worker, and the search of the theme is one. Here it runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      addEventListener("message", event => {
        if (event.source === inner) this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      inner.document.open()
      inner.document.write(`<body><script>
        postMessage = message => parent.postMessage(message, "*")
        importScripts = (...scripts) => scripts.reduce((before, address) => before.then(() => new Promise(done => {
          const script = document.createElement("script")
          script.src = address
          script.onload = done
          document.body.append(script)
        })), Promise.resolve())
      </` + `script><script src="${address}"></` + `script>`)
      inner.document.close()
      this.frame.addEventListener("load", () => {
        this.loaded = true
        this.waiting.splice(0).forEach(message => this.postMessage(message))
      })
    }

    postMessage(message) {
      if (!this.loaded) this.waiting.push(message)
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: message }))
    }

    set onmessage(heard) { this.addEventListener("message", heard) }

    terminate() { this.frame.remove() }
  }
  window.Worker = window.IFrameWorker
}
