// A person who signs in with headless Chromium: node browser.mjs FOLDER accept|refuse URL
// Before that, the person follows a link to Regrow's page that has a wrong state.
// Notes in FOLDER/seen.json what Regrow's pages showed; light.png and dark.png there are pictures of the last one.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'

const [folder, decision, url] = process.argv.slice(2)
const PATIENCE = 60_000

// One tab, over the DevTools protocol: JSON with a zero byte after each message.
class Tab {
  #commands
  #waiting = new Map()
  #last = 0
  #session
  #loaded = () => {}
  /** Where each document sent requests to. */
  requests = []

  constructor (commands, events) {
    this.#commands = commands
    let rest = ''
    events.setEncoding('utf8').on('data', text => {
      const messages = (rest + text).split('\0')
      rest = messages.pop()
      for (const message of messages) this.#read(JSON.parse(message))
    })
  }

  #read ({ id, method, params, result, error }) {
    if (method === 'Page.loadEventFired') this.#loaded()
    if (method === 'Network.requestWillBeSent') this.requests.push({ from: params.documentURL, to: params.request.url })
    if (!id) return
    const { resolve, reject } = this.#waiting.get(id)
    if (error) reject(new Error(error.message))
    else resolve(result)
  }

  send (method, params = {}) {
    const id = ++this.#last
    this.#commands.write(JSON.stringify({ id, method, params, sessionId: this.#session }) + '\0')
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }))
  }

  async open () {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    this.#session = sessionId
    await this.send('Page.enable')
    await this.send('Network.enable')
  }

  /** Ends the browser. */
  close () {
    this.#session = undefined
    this.send('Browser.close').catch(() => {}) // It may have ended.
  }

  /** Does what leads to another page, and waits for that. */
  async leave (act) {
    const loaded = new Promise(resolve => { this.#loaded = resolve })
    await act()
    await loaded
  }

  go (url) {
    return this.leave(() => this.send('Page.navigate', { url }))
  }

  /** The value of a function that runs in the page. */
  async evaluate (inPage) {
    const expression = `(${inPage})()`
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true })
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails))
    return result.value
  }

  page () {
    return this.evaluate(() => ({ url: location.href, title: document.title, text: document.body.innerText }))
  }

  async picture (scheme) {
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] })
    const { data } = await this.send('Page.captureScreenshot')
    writeFileSync(`${folder}/${scheme}.png`, data, 'base64')
    return this.evaluate(() => getComputedStyle(document.body).color)
  }
}

function accept () {
  for (const field of document.querySelectorAll('[name=login], [name=password]')) field.value = 'ann'
  document.querySelector('form [type=submit]').click()
}

function refuse () {
  document.querySelector('a[href$="/abort"]').click()
}

async function browse (tab) {
  await tab.open()
  const back = new URL(url).searchParams.get('redirect_uri')
  await tab.go(`${back}?code=stolen&state=wrong`)
  const stray = await tab.page()
  await tab.go(url)
  while (!(await tab.page()).url.startsWith(back)) {
    await tab.leave(() => tab.evaluate(decision === 'refuse' ? refuse : accept))
  }
  const { entries } = await tab.send('Page.getNavigationHistory')
  return {
    stray,
    last: await tab.page(),
    history: entries.map(entry => entry.url),
    requests: tab.requests.filter(({ from }) => from.startsWith(back)).map(({ to }) => to),
    colors: [await tab.picture('light'), await tab.picture('dark')]
  }
}

async function seen () {
  const profile = mkdtempSync(`${tmpdir()}/chromium-`)
  const chromium = spawn('chromium', [
    '--headless=new',
    ...(process.getuid() === 0 ? ['--no-sandbox'] : []),
    '--remote-debugging-pipe',
    `--user-data-dir=${profile}`,
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--no-proxy-server',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' // Nothing here is for the network.
  ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
  const ended = once(chromium, 'exit')
  const tooLate = new Promise(resolve => setTimeout(resolve, PATIENCE))
  const tab = new Tab(chromium.stdio[3], chromium.stdio[4])
  try {
    return await Promise.race([
      browse(tab),
      ended.then(() => { throw new Error('Chromium ended') }),
      tooLate.then(() => { throw new Error('the pages do not end') })
    ])
  } finally {
    tab.close()
    await Promise.race([ended, tooLate])
    chromium.kill('SIGKILL')
    await remove(profile)
  }
}

// Processes of Chromium may write there for a moment after its end.
async function remove (profile) {
  for (let attempts = 100; ; attempts--) {
    try {
      return rmSync(profile, { recursive: true, force: true })
    } catch (error) {
      if (attempts === 0) throw error
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
}

const outcome = await seen().catch(error => ({ error: error.stack }))
writeFileSync(`${folder}/seen.tmp`, JSON.stringify(outcome, null, 1))
renameSync(`${folder}/seen.tmp`, `${folder}/seen.json`)
process.exit()
